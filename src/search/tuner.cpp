#include "search/tuner.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "dag/declaration/declaration.h"
#include "heddle/support/error.h"
#include "records/nearest_config.h"
#include "search/alternative_results.h"
#include "search/candidate_book.h"
#include "search/history.h"
#include "support/log.h"

namespace heddle::search {
namespace {

// The number of consecutive rounds without a new legal proposal after which a policy is given up.
constexpr int kVainProposals = 4;
// The largest share of the budget for one round, because the next round knows more.
constexpr double kRoundShare = 0.1;
constexpr int kSmallestRound = 8;
// The number of rounds of half the size at the beginning. With rounds of 16 in place of 32 for the
// first 112 trials, and fewer random samples among them, evolution found in 150 trials what is 2.0
// % above the best known, in place of 3.3 % (mean of four subjects and four seeds each, on times
// that were recorded and a fit to them).
constexpr int kSmallRounds = 7;
// Several devices share rounds of as many candidates as one device has, each, because a device
// times the static choice as often for a small share and waits as long for the search. But the
// model learns nothing during a round: for many devices rounds grow more slowly.
constexpr int kWholeRounds = 8;  // devices
constexpr int kEachAtOnce = 8;   // candidates that each device gets at least
// A config is tried for a similar task when its time was below this share of the static choice's.
constexpr double kWorthATry = 0.97;

}  // namespace

TuneReport Tuner::run() {
  resume();
  measure_static();
  if (ended_ == TuneEnd::None) search();
  TuneReport out;
  out.within = within();
  out.another_minute = another_minute();
  out.tasks = finish();
  for (size_t i = 0; i < runs_.size(); ++i) {
    out.tasks[i].alternatives = alternative_results(runs_[i], out.tasks[i], options_.choices);
    if (!runs_[i].in_doubt()) out.tasks[i].near = runs_[i].nearness.probability(within());
  }
  show("done");
  out.trials = trials_;
  out.cancelled = clock_.cancelled();
  out.ended = ended_;
  out.failure = failure_;
  out.network = network_;
  out.model = predictions_.accuracy();
  out.nodes = measurer_->nodes();
  out.log = options_.log;
  out.remarks = measurer_->remarks();
  out.problems = problems_;
  for (std::string& p : measurer_->problems()) out.problems.push_back(std::move(p));
  for (std::string& p : log_.problems()) out.problems.push_back(std::move(p));
  out.unwritten = log_.unwritten();
  for (const auto& [phase, seconds] : phases_) out.time_spent.emplace_back(phase, seconds);
  for (const auto& [part, seconds] : measurer_->time_spent())
    out.time_spent.emplace_back("measure." + part, seconds);
  out.elapsed_seconds = own_clock_.elapsed_s();
  return out;
}

double Tuner::weight_of(const TaskRun& run) const {
  const double seconds = run.best_seconds();
  return gains_ == Gains::OfEachTask && seconds > 0 ? run.task.weight / seconds : run.task.weight;
}

void Tuner::measure_static() {
  if (ended_ == TuneEnd::None) announce_static_choices(0);
  std::vector<SchedulerTask> tasks;
  std::vector<std::string> shapes;  // one for each task, in the order of the scheduler
  for (int i = 0; i < static_cast<int>(runs_.size()); ++i) {
    TaskRun& run = runs_[static_cast<size_t>(i)];
    if (!run.was_measured(run.static_key()) && ended_ == TuneEnd::None) {
      show("static", i);
      // The measurer knows how many devices it has once it has measured something.
      if (i == 1) announce_static_choices(1);
      std::vector<Candidate> batch = candidates(run, {run.task.tmpl.default_config()});
      measure(i, batch, clock_);
      for (const Candidate& c : batch) {
        if (run.in_doubt()) doubt(run, c.result.message);
      }
    }
    auto at = std::find(shapes.begin(), shapes.end(), run.shape_class);
    tasks.push_back({.weight = weight_of(run),
                     .flops = run.task.flops(),
                     .similar = static_cast<int>(at - shapes.begin()),
                     .start_seconds = run.best_seconds(),
                     .least_seconds = least_seconds_of(run),
                     .near = run.nearness.probability(within())});
    if (at == shapes.end()) shapes.push_back(run.shape_class);
  }
  scheduler_.emplace(std::move(tasks),
                     SchedulerOptions{.patience = options_.patience, .until = options_.until});
  for (int i = 0; i < static_cast<int>(runs_.size()); ++i) {
    if (runs_[static_cast<size_t>(i)].in_doubt()) scheduler_->finish(i);
  }
}

// Announces the static choices of all tasks from the first one on, so that they compile side by
// side.
void Tuner::announce_static_choices(size_t first) {
  for (size_t i = first; i < runs_.size(); ++i) {
    const TaskRun& run = runs_[i];
    if (run.was_measured(run.static_key())) continue;
    if (clock_.left_s() <= reserve() ||
        !measurer_->prefetch(run.task, std::vector<Schedule>{run.task.tmpl.static_schedule()}))
      return;
  }
}

// The static choice is correct unless Heddle has a fault. If the check refuses it, the check itself
// may be wrong, so nothing can be concluded about other candidates.
void Tuner::doubt(const TaskRun& run, const std::string& message) {
  problems_.push_back("the check of '" + run.task.name +
                      "' refused the static choice, which is returned untuned (" + message +
                      "): a fault of the check or of the compiler, not of the candidates; "
                      "please report it");
}

void Tuner::search() {
  while (ended_ == TuneEnd::None) {
    double left = clock_.left_s() - reserve();
    int task = scheduler_->next();
    int count = task < 0 ? 0 : round_size(task, left);
    if (clock_.cancelled()) {
      ended_ = TuneEnd::Cancelled;
    } else if (options_.max_trials > 0 && trials_ >= options_.max_trials) {
      ended_ = TuneEnd::Trials;
    } else if (task < 0) {
      ended_ = scheduler_->any_near() ? TuneEnd::Near : TuneEnd::Converged;
    } else if (left <= 0 || count == 0) {
      ended_ = TuneEnd::Budget;
    } else if (!round(task, count)) {
      scheduler_->finish(task);
      runs_[static_cast<size_t>(task)].nearness.exhaust();
    }
    if (task >= 0) runs_[static_cast<size_t>(task)].progress.converged = scheduler_->done(task);
  }
  if (ended_ != TuneEnd::Failed) take_what_was_measured_ahead();
}

// Takes the results of proposed candidates that the measurer has already. It measures no more.
void Tuner::take_what_was_measured_ahead() {
  if (measurer_->look_ahead() == 0) return;
  for (size_t i = 0; i < runs_.size(); ++i) {
    size_t count = runs_[i].pending.size();
    if (options_.max_trials > 0)
      count = std::min(count, static_cast<size_t>(std::max(0, options_.max_trials - trials_)));
    std::vector<Candidate> batch = take_pending(runs_[i], count);
    if (!batch.empty()) measure(static_cast<int>(i), batch, TuneClock(0));
  }
}

int Tuner::round_size(int task, double left) const {
  const TaskRun& run = runs_[static_cast<size_t>(task)];
  // The first rounds are small, because the model learns most from the first results.
  const int devices = measurer_->width();
  const int batch =
      std::max(options_.batch * std::min(devices, kWholeRounds), kEachAtOnce * devices);
  double count = scheduler_->rounds(task) < kSmallRounds ? (batch + 1) / 2 : batch;
  double each = run.seconds_per_trial();
  if (each > 0) {
    count = std::min(count, std::max<double>(kSmallestRound, kRoundShare * total_ / each));
    // Where the budget is short for the number of tasks, half of it is for their first rounds.
    if (int waiting = scheduler_->waiting(); waiting > 1)
      count = std::min(count, std::max(4.0, left / 2 / waiting / each));
    count = std::min(count, std::ceil(left / each));
  }
  if (options_.max_trials > 0) count = std::min<double>(count, options_.max_trials - trials_);
  return static_cast<int>(std::max(0.0, count));
}

// The number of trials of a task that fit into the time that is left; infinite where nothing is
// known.
double Tuner::trials_left(const TaskRun& run) const {
  const double each = run.seconds_per_trial();
  return each > 0 ? (clock_.left_s() - reserve()) / each : std::numeric_limits<double>::infinity();
}

// The first candidates that were proposed while earlier ones were measured.
std::vector<Candidate> Tuner::take_pending(TaskRun& run, size_t count) {
  const auto end =
      run.pending.begin() + static_cast<ptrdiff_t>(std::min(count, run.pending.size()));
  std::vector<Candidate> batch(std::make_move_iterator(run.pending.begin()),
                               std::make_move_iterator(end));
  run.pending.erase(run.pending.begin(), end);
  return batch;
}

// Runs one round of a task. Returns false when its space has nothing new left.
bool Tuner::round(int task, int count) {
  TaskRun& run = runs_[static_cast<size_t>(task)];
  show("search", task);
  bool exhausted = false;
  std::vector<Candidate> batch = take_pending(run, static_cast<size_t>(count));
  if (batch.empty()) batch = propose(task, count, &exhausted);
  if (batch.empty()) return false;
  look_ahead(task, batch.size(), static_cast<size_t>(count));
  show("measure", task);
  const TuneClock wall;
  measure(task, batch, TuneClock(clock_.left_s() - reserve(), &clock_));
  if (measurer_->look_ahead() > 0) run.add_round(wall.elapsed_s(), batch.size());
  double spent = 0;
  for (const Candidate& c : batch)
    spent += c.result.compile_seconds + c.result.run_seconds + c.result.check_seconds;
  scheduler_->report(task, run.best_seconds(), spent, run.nearness.probability(within()));
  HEDDLE_LOG_AT("search", 1,
                run.task.name + ": " + std::to_string(run.progress.trials) + " trials, best " +
                    std::to_string(run.best_seconds() * 1e3) + " ms of static " +
                    std::to_string(run.progress.static_seconds * 1e3) + " ms");
  return !exhausted;
}

// Proposes the next candidates now, so that the measurer can compile them while it measures this
// batch. They are chosen without the results of this batch, and where the measurer looks ahead
// further, without those of several batches. Early in a search results are worth more than
// candidates, so that at most twice as many are proposed as were measured.
void Tuner::look_ahead(int task, size_t in_batch, size_t count) {
  TaskRun& run = runs_[static_cast<size_t>(task)];
  if (measurer_->prefetch(run.task, {})) {
    double wanted = run.pending.empty() ? static_cast<double>(count) : 0;
    const double most = std::max<double>(count, 2.0 * run.progress.trials);
    wanted = std::max(wanted, std::min<double>(measurer_->look_ahead(), most));
    wanted = std::min(wanted, std::max<double>(count, trials_left(run)));
    if (options_.max_trials > 0)
      wanted = std::min(wanted, options_.max_trials - trials_ - static_cast<double>(in_batch));
    const int missing = static_cast<int>(wanted) - static_cast<int>(run.pending.size());
    bool exhausted = false;
    if (missing > 0) {
      std::vector<Candidate> next = propose(task, missing, &exhausted);
      std::move(next.begin(), next.end(), std::back_inserter(run.pending));
    }
  }
  std::vector<Schedule> schedules;
  for (const Candidate& c : run.pending) schedules.push_back(c.schedule);
  if (!schedules.empty()) measurer_->prefetch(run.task, schedules);
}

// The winners of tasks of the same structure, which are tried first.
std::vector<Config> Tuner::seeds_from_similar(int task) const {
  const TaskRun& own = runs_[static_cast<size_t>(task)];
  std::vector<Config> seeds;
  for (const TaskRun& other : runs_) {
    if (&other == &own || other.shape_class != own.shape_class || other.leaders().empty()) continue;
    const Leader& best = other.leaders().front();
    if (best.seconds > kWorthATry * other.progress.static_seconds) continue;
    const Record record = make_record("", other.task.tmpl, best.config);
    seeds.push_back(records::nearest_config(own.task.tmpl, record));
  }
  return seeds;
}

// Candidates that were never proposed before, the winners of similar tasks first.
std::vector<Candidate> Tuner::propose(int task, int count, bool* exhausted) {
  Timed timed(*this, "search");
  TaskRun& run = runs_[static_cast<size_t>(task)];
  std::vector<Candidate> out;
  const auto add = [&](std::vector<Candidate> more) {
    for (Candidate& c : more) {
      if (static_cast<int>(out.size()) < count && run.proposed.insert(c.key).second)
        out.push_back(std::move(c));
    }
  };
  add(candidates(run, seeds_from_similar(task)));
  const int of_policy = count - static_cast<int>(out.size());
  for (int i = 0; of_policy > 0 && i < kVainProposals; ++i) {
    std::vector<Config> configs = run.policy->propose(of_policy);
    if (configs.empty()) break;
    add(candidates(run, configs));
    if (!out.empty()) break;
  }
  *exhausted = out.empty();
  return out;
}

// Legal configs that were not measured yet, with the predictions of the model.
std::vector<Candidate> Tuner::candidates(TaskRun& run, const std::vector<Config>& configs) {
  std::vector<Candidate> out;
  std::unordered_set<uint64_t> here;
  for (const Config& config : configs) {
    try {
      Candidate c{.config = config, .schedule = run.task.tmpl.instantiate(config)};
      c.key = measuring::steps_hash(c.schedule);
      c.result.error = MeasureError::Cancelled;
      if (run.was_measured(c.key) || !here.insert(c.key).second) continue;
      out.push_back(std::move(c));
    } catch (const Error& e) {
      // The built-in policies refuse such configs themselves. A user's policy may not.
      run.policy->report(std::vector<Trial>{{config, std::numeric_limits<double>::infinity()}});
      run.reject(e.message);
    }
  }
  std::vector<Features> rows;
  for (Candidate& c : out) {
    try {
      c.features = features_(run.task, c.schedule);
      rows.push_back(c.features);
    } catch (const Error&) {
      // The schedule will fail to compile and be recorded as a failure.
    }
  }
  if (rows.empty() || !model_->ready()) return out;
  std::vector<double> predicted = model_->predict(run.task.hash(), rows);
  size_t row = 0;
  for (Candidate& c : out) {
    if (c.features.empty()) continue;
    c.predicted = predicted.at(row++);
    c.was_predicted = true;
  }
  return out;
}

void Tuner::measure(int task, std::vector<Candidate>& batch, const TuneClock& clock) {
  TaskRun& run = runs_[static_cast<size_t>(task)];
  std::vector<Schedule> schedules;
  for (const Candidate& c : batch) schedules.push_back(c.schedule);
  auto done = [&](size_t index, const MeasureResult& result) {
    Candidate& c = batch.at(index);
    c.result = result;
    // A result with neither an error nor a time can come from a user's measurer.
    if (result.error == MeasureError::None && result.seconds.empty()) {
      c.result.error = MeasureError::Crash;
      c.result.message = "the measurer gave no times";
    }
    if (c.result.error == MeasureError::Cancelled) return;
    record(run, &c.config, c.schedule, c.result, Verdict::Screened, protocol_of(run),
           c.was_predicted ? c.predicted : std::numeric_limits<double>::quiet_NaN());
    c.seconds = run.adjusted(c.result.median(), c.result.base_seconds);
    run.add(c.config, c.key, c.seconds, c.result.error);
    if (c.result.error == MeasureError::Rejected)
      run.reject(c.result.message.substr(0, c.result.message.find(':')));
    run.add_cost(c.result);
    ++run.progress.trials;
    ++trials_;
    show("measure", task);
  };
  try {
    Timed timed(*this, "measure");
    double best = run.best_seconds();
    measurer_->measure(run.task, schedules,
                       best > 0 ? best : std::numeric_limits<double>::infinity(), clock, done);
  } catch (const Error& e) {
    if (trials_ == 0) throw;  // the measurer cannot measure at all
    failed("measuring " + run.task.name + " failed: " + e.message);
    ended_ = TuneEnd::Failed;
  }
  // Trials are reported in the order in which they were proposed, whatever the order of the
  // results.
  std::vector<Trial> trials;
  for (const Candidate& c : batch) {
    if (c.result.error == MeasureError::Cancelled) continue;
    trials.push_back({c.config, c.seconds});
    if (c.was_predicted) predictions_.add(task, c.predicted, c.result.ok() ? 1 / c.seconds : 0);
  }
  Timed timed(*this, "train");
  run.policy->report(trials);
  if (!trials.empty()) show("train", task);
  train(run, batch);
}

void Tuner::failed(const std::string& why) {
  if (failure_.empty()) failure_ = why;
  problems_.push_back(why);
}

namespace {

/// The declaration of a task as records hold it; null where it has no such form.
Json declaration_of(const TuneTask& task) {
  try {
    return declaration_to_json(task.tmpl.dag().direct(), task.args);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

void Tuner::record(const TaskRun& run, const Config* config, const Schedule& schedule,
                   const MeasureResult& result, Verdict verdict, const std::string& protocol,
                   double predicted) {
  if (options_.log.empty()) return;
  Timed timed(*this, "record");
  Record r =
      make_record(run.task.name, run.task.tmpl, config ? *config : run.task.tmpl.default_config());
  if (!config) {  // the candidate has steps only
    r.config = Json::object();
    r.template_version = 0;
  }
  r.alternative = schedule.dag().alternative();
  r.steps = steps_of(schedule);
  r.seconds = result.seconds;
  r.base_seconds = result.base_seconds;
  r.error = result.error;
  r.message = result.message;
  r.verdict = verdict;
  r.protocol = protocol;
  if (!result.machine.empty()) r.machine = result.machine;
  r.compile_seconds = result.compile_seconds;
  r.measure_seconds = result.run_seconds + result.check_seconds;
  r.seed = options_.seed;
  r.predicted = predicted;
  if (run.task.weight > 0) r.calls = run.task.weight;
  if (declared_.insert(r.structural_hash).second) r.declaration = declaration_of(run.task);
  log_.append(std::move(r));
}

void Tuner::show(const std::string& phase, int active) {
  if (options_.progress) options_.progress(progress(phase, active));
}

TuneProgress Tuner::progress(const std::string& phase, int active) const {
  TuneProgress p;
  p.active = active;
  p.phase = phase;
  p.trials = trials_;
  p.elapsed_seconds = own_clock_.elapsed_s();
  p.left_seconds = clock_.left_s();
  for (const TaskRun& run : runs_) {
    const TaskProgress& t = run.progress;
    p.tasks.push_back(t);
    p.tasks.back().near = run.nearness.probability(within());
    p.static_seconds += t.weight * t.static_seconds;
    p.best_seconds += t.weight * t.best_seconds;
  }
  p.nodes = measurer_->nodes();
  p.trials_per_second = p.elapsed_seconds > 0 ? trials_ / p.elapsed_seconds : 0;
  return p;
}

}  // namespace heddle::search
