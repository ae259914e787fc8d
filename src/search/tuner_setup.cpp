#include <algorithm>
#include <cmath>

#include "heddle/records/tophub.h"
#include "heddle/support/error.h"
#include "search/candidate_book.h"
#include "search/history.h"
#include "search/ranked_seeds.h"
#include "search/tuner.h"
#include "support/hashing/hash.h"

namespace heddle::search {

namespace {

void check_what_for(const TuneTask& task, const TuneOptions& options) {
  const Template& t = task.tmpl;
  if (options.scheduler && *options.scheduler != t.options()) {
    throw_user_error("TuneOptions::scheduler is not what task '" + task.name + "' was made with",
                     {}, "leave it out, or make the task or network with it");
  }
  if (!options.target || apply_options(*options.target, t.options()) == t.target()) return;
  throw_user_error("TuneOptions::target is '" + to_string(*options.target) + "', and task '" +
                       task.name + "' is for '" + to_string(t.target()) + "'",
                   {}, "leave it out, or make the task or network for that target");
}

}  // namespace

void check_tuning(std::span<const TuneTask> tasks, const TuneOptions& options) {
  if (tasks.empty()) throw_user_error("there are no tasks to tune");
  // A clock that the caller provides has its own budget.
  if (const double seconds = options.budget.count(); !options.clock && !(seconds > 0)) {
    throw_user_error("TuneOptions: budget is " + std::to_string(seconds) + " s", {},
                     "more than 0 seconds: {.budget = 60s}");
  }
  if (options.max_trials < 0)
    throw_user_error("TuneOptions: max_trials is " + std::to_string(options.max_trials), {},
                     "at least 1, or 0 to go on until the budget ends");
  if (options.batch < 1)
    throw_user_error("TuneOptions: batch is " + std::to_string(options.batch), {}, "at least 1");
  if (!(options.until >= 0 && options.until < 1))
    throw_user_error("TuneOptions: until is " + std::to_string(options.until), {},
                     "a share of the time: at least 0, less than 1, such as 0.05");
  if (!(options.final_race_share >= 0 && options.final_race_share < 1)) {
    throw_user_error("TuneOptions: final_race_share is " + std::to_string(options.final_race_share),
                     {}, "a share of the budget: at least 0, less than 1");
  }
  if (!options.standing.empty() && options.standing.size() != tasks.size())
    throw_user_error("TuneOptions: standing has " + std::to_string(options.standing.size()) +
                         " schedules for " + std::to_string(tasks.size()) + " tasks",
                     {}, "one for each task, or none");
  for (const TuneTask& t : tasks) check_what_for(t, options);
  const bool tf32 = std::any_of(tasks.begin(), tasks.end(),
                                [](const TuneTask& t) { return t.tmpl.options().allow_tf32; });
  if (!options.log.empty() && tf32) {
    // The record would later be used where tf32 is not allowed.
    throw_user_error("a record does not say that it was made with allow_tf32", {},
                     "tune without a log, and keep the result's schedule");
  }
}

Tuner::Tuner(std::vector<TuneTask> tasks, const TuneOptions& options, Gains gains)
    : options_(options),
      gains_(gains),
      own_clock_(options.budget.count()),
      clock_(options.clock ? *options.clock : own_clock_),
      total_(clock_.left_s()),
      features_(options.features),
      measurer_(options.measurer),
      model_(options.model),
      log_(options.log) {
  check_tuning(tasks, options);
  if (!features_) {
    features_ = [](const TuneTask& t, const Schedule& s) { return schedule_features(s, t.args); };
  }
  if (!measurer_) {
    const WorkerOptions how{.protocol = options.protocol, .runs_at_once = options.runs_at_once};
    own_measurer_ =
        tasks[0].tmpl.target().is_cuda() ? make_cuda_measurer(how) : make_worker_measurer(how);
    measurer_ = own_measurer_.get();
  }
  if (!model_) {
    own_model_ =
        make_xgboost_model({.seed = options.seed, .target_kind = tasks[0].tmpl.target().kind});
    model_ = own_model_.get();
    std::optional<std::string> shipped;
    if (options.warm_start) shipped = tophub_model(tasks[0].tmpl.target());
    if (shipped) {
      try {
        model_->load(*shipped);
      } catch (const Error& e) {
        problems_.push_back("the shipped cost model was not used: " + e.message);
      }
    }
  }
  for (size_t t = 0; t < tasks.size(); ++t)
    runs_.emplace_back(std::move(tasks[t]),
                       options.standing.empty() ? std::nullopt : options.standing[t]);
}

SearchPolicyFactory Tuner::policy_factory() const {
  if (options_.policy) return options_.policy;
  return [](const SearchContext& context) { return make_evolutionary_policy(context); };
}

// Times of a task alone with warm caches do not compare with times in the cache state of a network.
std::string Tuner::protocol_of(const TaskRun& run) const {
  const std::string protocol = measurer_->protocol();
  const std::string_view warm = "warm";
  if (run.task.network_bytes <= 0 || !protocol.starts_with(warm)) return protocol;
  return "in-network" + protocol.substr(warm.size());
}

void Tuner::train(TaskRun& run, const std::vector<Candidate>& measured) {
  std::vector<TrainingRow> rows;
  for (const Candidate& c : measured) {
    if (c.features.empty() || c.result.error == MeasureError::Cancelled) continue;
    rows.push_back({run.task.hash(), c.features, c.result.ok() ? 1 / c.seconds : 0});
  }
  if (!rows.empty()) model_->update(rows);
}

namespace {

// The tasks whose declaration one of the records holds.
std::unordered_set<uint64_t> tasks_declared_in(const std::vector<Record>& records) {
  std::unordered_set<uint64_t> tasks;
  for (const Record& r : records) {
    if (!r.declaration.is_null()) tasks.insert(r.structural_hash);
  }
  return tasks;
}

}  // namespace

void Tuner::resume() {
  Timed timed(*this, "resume");
  SearchPolicyFactory make_policy = policy_factory();
  for (TaskRun& run : runs_) {
    std::shared_ptr<const RecordDatabase> shipped;
    if (options_.warm_start) shipped = tophub(run.task.tmpl.options().record_log);
    History h = history_of(run.task, log_.earlier(), protocol_of(run), shipped.get());
    run.replayed = std::move(h.replayed);
    read_certificate(run);

    SearchContext context{.task = &run.task,
                          .seeds = {run.task.tmpl.default_config()},
                          .model = model_,
                          .seed = hash_combine(options_.seed, run.task.hash()),
                          .features = options_.features};
    const std::vector<Config> ranked = ranked_seeds(run.task.tmpl);
    context.seeds.insert(context.seeds.end(), ranked.begin(), ranked.end());
    // Every alternative that may be good is measured early, with the defaults of its own rule.
    for (const int b : early_branches(run.task.tmpl)) {
      const Config own = run.task.tmpl.branch(b).default_config();
      if (run.task.tmpl.num_branches() > 1)
        context.seeds.push_back(run.task.tmpl.config_of_branch(b, own));
    }
    context.seeds.insert(context.seeds.end(), h.seeds.begin(), h.seeds.end());
    run.policy = make_policy(context);
    HEDDLE_ICHECK(run.policy, "the policy factory returned nothing");

    std::vector<Trial> trials;
    std::vector<Candidate> measured;
    std::vector<std::pair<const History::Measured*, Candidate>> earlier;
    bool in_doubt = false;  // an earlier check refused the static choice
    for (const History::Measured& m : h.trials) {
      Candidate c{.config = m.config, .schedule = run.task.tmpl.instantiate(m.config)};
      c.key = measuring::steps_hash(c.schedule);
      in_doubt |= c.key == run.static_key() && m.error == MeasureError::WrongAnswer;
      earlier.emplace_back(&m, std::move(c));
    }
    for (auto& [known, c] : earlier) {
      const History::Measured& m = *known;
      if (in_doubt && m.error == MeasureError::WrongAnswer) continue;
      c.seconds = run.adjusted(m.seconds, m.base_seconds);
      run.add(m.config, c.key, c.seconds, m.error);
      trials.push_back({m.config, c.seconds});
      try {
        c.features = features_(run.task, c.schedule);
      } catch (const Error&) {
      }
      c.result.error = m.error;
      if (m.error == MeasureError::None) c.result.seconds = {m.seconds};
      measured.push_back(std::move(c));
    }
    run.progress.resumed = static_cast<int>(trials.size());
    run.progress.failures = 0;  // failures of earlier runs do not count
    run.failures_by_kind.clear();
    run.policy->report(trials);
    train(run, measured);
  }
  declared_ = tasks_declared_in(log_.earlier());
  log_.forget_earlier();
}

}  // namespace heddle::search
