#include "comparison.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include "heddle/records/tophub.h"
#include "search/candidate_book.h"
#include "search/history.h"
#include "subjects/subjects.h"
#include "support/hash.h"

namespace heddle::bench {
namespace {

/// Leaders whose times in the race differ by less than this factor count as equal.
constexpr double kEqual = 1.005;
constexpr size_t kLeaders = 6;  // of each run, by screening; the best of them in the race counts

TuneTask task_of(const CompareOptions& o) {
  const cli::Problem problem = cli::make_problem(o.subject, f32);
  Target target = Target::host();
  target.cores = o.threads;
  TuneTask task = make_task(problem.subject, problem.outputs, target, problem.args());
  task.make_input = [problem](size_t arg) { return problem.make_input(arg); };
  return task;
}

}  // namespace

std::vector<Search::Step> Search::leaders(int count) const {
  std::vector<Step> out(steps.begin(), steps.begin() + std::min<ptrdiff_t>(count, ssize(steps)));
  std::sort(out.begin(), out.end(),
            [](const Step& a, const Step& b) { return a.seconds < b.seconds; });
  if (out.size() > kLeaders) out.resize(kLeaders);
  return out;
}

Comparison::Comparison(const CompareOptions& o)
    : options_(o), task_(task_of(o)), clock_(o.seconds) {
  MeasureProtocol protocol;
  protocol.max_seconds = 0.03;
  measurer_ = make_worker_measurer({.protocol = protocol});
  if (!o.log.empty()) read_log();
  for (int s = 1; s <= o.seeds; ++s) {
    add("random", static_cast<uint64_t>(s), o.random_trials, false);
    add("evolution", static_cast<uint64_t>(s), o.model_trials, false);
    if (o.warm_start) add("warm", static_cast<uint64_t>(s), o.model_trials, true);
  }
}

bool Comparison::run() {
  for (;;) {
    std::vector<Batch> batches;
    for (Search& s : searches_) {
      std::vector<Config> configs = propose(s);
      if (!configs.empty()) batches.emplace_back(&s, std::move(configs));
    }
    if (batches.empty()) return true;
    if (!measure(batches)) return false;
    for (auto& [search, configs] : batches) report(*search, configs);
  }
}

void Comparison::race() {
  std::map<uint64_t, Config> raced;
  auto enter = [&](const Search::Step& s) {
    if (std::isfinite(s.seconds)) raced.emplace(s.key, s.config);
  };
  double goal = 0;  // the worst final time of the runs of random search
  for (const Search& s : searches_) {
    const int stages[] = {options_.model_trials, s.most};
    for (const int n : stages) {
      for (const Search::Step& step : s.leaders(n)) enter(step);
    }
    if (s.name == "random") goal = std::max(goal, s.leaders(s.most).front().seconds);
  }
  // The steps that may have been the one that reached the goal.
  for (const Search& s : searches_) {
    double best = 1.05 * goal;
    for (const Search::Step& step : s.steps) {
      if (s.name == "random" || step.seconds >= best) continue;
      best = step.seconds;
      enter(step);
    }
  }
  const Config base = task_.tmpl.default_config();
  raced.emplace(key_of(base), base);
  std::vector<uint64_t> keys;
  std::vector<Schedule> schedules;
  for (const auto& [key, config] : raced) {
    keys.push_back(key);
    schedules.push_back(task_.tmpl.instantiate(config));
  }
  const std::vector<MeasureResult> results =
      measurer_->race(task_, schedules, options_.race_seconds, TuneClock());
  for (size_t i = 0; i < keys.size(); ++i) {
    raced_[keys[i]] = results[i].median();
    rounds_ = std::max(rounds_, results[i].seconds.size());
  }
}

Json Comparison::result() const {
  Json out = Json::object();
  out["subject"] = options_.subject;
  out["threads"] = options_.threads;
  out["space"] = task_.tmpl.space_size();
  out["trials"] = options_.model_trials;
  out["random_trials"] = options_.random_trials;
  out["configs_timed"] = times_.size();
  out["raced"] = raced_.size();
  out["race_rounds"] = rounds_;
  out["static_ms"] = 1e3 * raced_.at(key_of(task_.tmpl.default_config()));
  std::vector<std::string> names;
  for (const Search& s : searches_) {
    if (std::find(names.begin(), names.end(), s.name) == names.end()) names.push_back(s.name);
  }
  for (const std::string& name : names) out[name] = summary(name);
  for (const std::string& name : names) {
    if (name == "random") continue;
    const int trials = options_.model_trials;
    out[name + "_gain"] = mean("random", trials) / mean(name, trials);
    out[name + "_gain_found"] =
        mean("random", trials, With::Nothing) / mean(name, trials, With::Nothing);
  }
  return out;
}

void Comparison::add(const std::string& name, uint64_t seed, int trials, bool warm) {
  Search s;
  s.name = name;
  s.seed = seed;
  s.most = trials;
  const uint64_t mixed = hash_combine(seed, task_.hash());
  SearchContext context{.task = &task_, .seeds = {task_.tmpl.default_config()}, .seed = mixed};
  if (name != "random") {
    s.model = make_xgboost_model({.seed = seed});
    context.model = s.model.get();
  }
  if (warm) {
    const History h = history_of(task_, {}, measurer_->protocol(), tophub().get());
    context.seeds.insert(context.seeds.end(), h.seeds.begin(), h.seeds.end());
    if (const auto path = tophub_model(task_.tmpl.target())) s.model->load(*path);
  }
  s.policy = name == "random" ? make_random_policy(context) : make_evolutionary_policy(context);
  searches_.push_back(std::move(s));
}

uint64_t Comparison::key_of(const Config& c) const { return steps_hash(task_.tmpl.instantiate(c)); }

// The sizes of rounds are those of the tuner: the static choice, seven small rounds, then full
// ones.
std::vector<Config> Comparison::propose(Search& s) {
  const int left = s.most - static_cast<int>(s.steps.size());
  if (s.over || left <= 0) return {};
  const int size = s.rounds == 0 ? 1 : s.rounds < 8 ? (options_.batch + 1) / 2 : options_.batch;
  ++s.rounds;
  std::vector<Config> out = s.policy->propose(std::min(size, left));
  s.over = out.empty();
  return out;
}

bool Comparison::measure(const std::vector<Batch>& batches) {
  std::vector<Schedule> schedules;
  std::vector<Config> configs;
  std::vector<uint64_t> keys;
  std::set<uint64_t> here;
  for (const auto& [search, batch] : batches) {
    for (const Config& c : batch) {
      Schedule schedule = task_.tmpl.instantiate(c);
      const uint64_t key = steps_hash(schedule);
      if (times_.contains(key) || !here.insert(key).second) continue;
      schedules.push_back(std::move(schedule));
      configs.push_back(c);
      keys.push_back(key);
    }
  }
  bool all = true;
  measurer_->measure(task_, schedules, best_, clock_, [&](size_t i, const MeasureResult& r) {
    if (r.error == MeasureError::Cancelled) {
      all = false;
      return;
    }
    take(keys[i], r.median());
    if (options_.log.empty()) return;
    Record record = make_record(task_.name, task_.tmpl, configs[i]);
    record.seconds = r.seconds;
    record.error = r.error;
    record.message = r.message;
    record.protocol = measurer_->protocol();
    log_->append(record);
  });
  return all;
}

void Comparison::take(uint64_t key, double seconds) {
  times_[key] = seconds;
  best_ = std::min(best_, seconds);
}

void Comparison::read_log() {
  if (std::ifstream(options_.log).good()) {
    for (const Record& r : read_records(options_.log).records) {
      if (r.structural_hash != task_.tmpl.dag().structural_hash()) continue;
      take(steps_hash(Schedule::from_json(r.steps, task_.tmpl.dag(), r.target)), r.median());
    }
  }
  log_ = std::make_unique<RecordLog>(options_.log);
}

void Comparison::report(Search& s, const std::vector<Config>& configs) {
  std::vector<Trial> trials;
  std::vector<TrainingRow> rows;
  for (const Config& c : configs) {
    const Schedule schedule = task_.tmpl.instantiate(c);
    const uint64_t key = steps_hash(schedule);
    const double seconds = times_.at(key);
    trials.push_back({c, seconds});
    s.steps.push_back({c, key, seconds});
    if (!s.model) continue;
    auto [at, is_new] = features_.try_emplace(key);
    if (is_new) at->second = schedule_features(schedule, task_.args);
    rows.push_back({task_.hash(), at->second, std::isfinite(seconds) ? 1 / seconds : 0});
  }
  s.policy->report(trials);
  if (s.model) s.model->update(rows);
}

/// The best time of the run's first trials, by the race. Leaders after fewer trials are included.
/// The static choice is given to every search, so none ends above it.
double Comparison::raced_best(const Search& s, int trials, With with) const {
  const uint64_t given = key_of(task_.tmpl.default_config());
  double best = with == With::Static ? raced_.at(given) : std::numeric_limits<double>::infinity();
  for (const int stage : {std::min(trials, options_.model_trials), trials}) {
    for (const Search::Step& step : s.leaders(stage)) {
      const auto at = raced_.find(step.key);
      if (at != raced_.end() && step.key != given) best = std::min(best, at->second);
    }
  }
  return best;
}

double Comparison::mean(const std::string& name, int trials, With with) const {
  double sum = 0;
  int n = 0;
  for (const Search& s : searches_) {
    if (s.name != name) continue;
    sum += std::log(raced_best(s, trials, with));
    ++n;
  }
  return std::exp(sum / n);
}

/// The number of trials after which a run had found what random search with the same seed found in
/// all its trials. The static choice does not count.
int Comparison::reaches(const Search& s) const {
  double goal = 0;
  for (const Search& r : searches_) {
    if (r.name == "random" && r.seed == s.seed) goal = raced_best(r, r.most, With::Nothing);
  }
  for (size_t i = 0; i < s.steps.size(); ++i) {
    const auto at = raced_.find(s.steps[i].key);
    if (i > 0 && at != raced_.end() && at->second <= kEqual * goal) return static_cast<int>(i) + 1;
  }
  return -1;
}

Json Comparison::summary(const std::string& name) const {
  Json out = Json::object();
  Json runs = Json::array();
  for (const Search& s : searches_) {
    if (s.name != name) continue;
    Json run = Json::object();
    run["seed"] = s.seed;
    run["raced_ms"] = 1e3 * raced_best(s, options_.model_trials);
    if (name == "random") {
      run["raced_ms_of_all"] = 1e3 * raced_best(s, s.most);
    } else {
      run["reaches_random_after"] = reaches(s);
    }
    Json curve = Json::array();
    double best = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < s.steps.size(); ++i) {
      best = std::min(best, s.steps[i].seconds);
      if ((i + 1) % 25 == 0) curve.push_back(Json(1e3 * best));
    }
    run["screened_ms_every_25"] = std::move(curve);
    runs.push_back(std::move(run));
  }
  out["mean_ms"] = 1e3 * mean(name, options_.model_trials);
  out["runs"] = std::move(runs);
  return out;
}

}  // namespace heddle::bench
