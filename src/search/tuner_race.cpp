#include <algorithm>
#include <cmath>
#include <numeric>

#include "heddle/support/error.h"
#include "measure/task/race.h"
#include "measure/task/steps_hash.h"
#include "search/tuner.h"

namespace heddle::search {
namespace {

constexpr int kRaced = 6;        // leaders that race against the static choice
constexpr int kAlwaysRaced = 3;  // leaders that race in any case
constexpr double kContender =
    1.1;  // other leaders race if screening found them within this factor of the first
// Screening is not exact, and it times the static choice only once. A leader races although it was
// slower than the static choice by up to these factors: the first few leaders, and the others.
constexpr double kMaybeFaster = 1.25, kAsGood = 1.02;
constexpr int kRaceRounds = 16;  // rounds, for the estimate of the time of a race
// A short race has fewer entrants, because fewer rounds than these prove nothing.
constexpr int kFewestRounds = 8;
// Seconds for the races of a cancelled run, so that its results are not lost.
constexpr double kGraceSeconds = 1;

// Seconds to start a race: a process, its pages and threads, and the check of the entrants'
// results.
constexpr double kRaceStartSeconds = 0.05;

// Seconds of an entrant in a race of `rounds` rounds. It is compiled, and called three times to be
// checked and timed roughly. A turn has one untimed call and lasts 1 ms at least.
double entrant_seconds(const TaskRun& run, int rounds) {
  const double call = run.best_seconds();
  return run.compile_seconds() + 3 * call + rounds * (call + std::max(call, 1e-3));
}

// Whether a leader is worth racing. One lucky time must not keep the next few leaders out. A leader
// that screening found clearly slower than the static choice does not race.
bool contends(const TaskRun& run, const Leader& leader) {
  const std::vector<Leader>& all = run.leaders();
  double base = run.progress.static_seconds;
  const bool first = &leader < all.data() + kAlwaysRaced;
  if (base > 0 && leader.seconds > (first ? kMaybeFaster : kAsGood) * base) return false;
  return first || leader.seconds <= kContender * all.front().seconds;
}

// The number of entrants that a race of `seconds` can tell apart.
int most_entrants(const TaskRun& run, double seconds) {
  const double each = entrant_seconds(run, kFewestRounds);
  const double in_time = (seconds - kRaceStartSeconds) / std::max(each, 1e-9);
  return 1 + std::clamp(static_cast<int>(in_time) - 1, 1, kRaced);
}

}  // namespace

std::vector<Tuner::Entrant> Tuner::entrants_of(const TaskRun& run, int most) const {
  const Template& t = run.task.tmpl;
  const uint64_t stands = run.standing ? measuring::steps_hash(*run.standing) : run.static_key();
  std::vector<Entrant> entrants;
  if (run.standing) entrants.push_back({std::nullopt, *run.standing});
  entrants.push_back({t.default_config(), t.static_schedule()});
  for (const Schedule& s : run.replayed) {
    if (measuring::steps_hash(s) != stands) entrants.push_back({std::nullopt, s});
  }
  for (const Leader& l : run.leaders()) {
    if (entrants.size() >= static_cast<size_t>(most) + static_entrant(run)) break;
    if (!contends(run, l)) break;
    if (l.key != stands) entrants.push_back({l.config, t.instantiate(l.config)});
  }
  return entrants;
}

// Seconds that a race of this task's leaders takes; 0 when there is nothing to race.
double Tuner::race_need(const TaskRun& run, int rounds) const {
  int leaders = static_cast<int>(run.replayed.size() + static_entrant(run));
  for (const Leader& l : run.leaders()) {
    if (leaders == kRaced || !contends(run, l)) break;
    ++leaders;
  }
  if (leaders == 0) return 0;
  return (leaders + 1) * entrant_seconds(run, rounds) + kRaceStartSeconds;
}

// Seconds of the shortest race that proves something: one leader against the static choice.
double Tuner::least_race(const TaskRun& run) const {
  return 2 * entrant_seconds(run, kFewestRounds) + kRaceStartSeconds;
}

// Seconds of the budget that are kept for the races: their likely time, at most their share.
double Tuner::reserve() const {
  if (!std::isfinite(total_)) return 0;
  if (races_jointly()) return joint_need();
  double need = 0;
  for (const TaskRun& run : runs_) need += race_need(run, kRaceRounds);
  return std::min(options_.final_race_share * total_, 1.3 * need);
}

TaskResult Tuner::result_of(const TaskRun& run) const {
  const Template& t = run.task.tmpl;
  TaskResult r{
      .name = run.task.name, .config = t.default_config(), .schedule = t.static_schedule()};
  r.static_seconds = r.best_seconds = run.progress.static_seconds;
  if (run.standing) {
    r.config.reset();
    r.schedule = *run.standing;
    r.best_seconds = 0;  // the race times it
    r.improved = true;
  }
  r.trials = run.progress.trials;
  r.failures = run.progress.failures;
  r.failures_by_kind = run.failures_by_kind;
  r.rejections = run.rejections();
  return r;
}

// The result without a race is the choice that stands, unless that is the static choice and does not
// run. Single times, those of the static choice included, are sometimes a third off.
TaskResult Tuner::by_screening(const TaskRun& run) const {
  TaskResult r = result_of(run);
  const bool static_fails = run.static_error() != MeasureError::None && !run.in_doubt();
  if (run.standing || !static_fails || run.leaders().empty()) return r;
  const Leader& best = run.leaders().front();
  r.config = best.config;
  r.schedule = run.task.tmpl.instantiate(best.config);
  r.schedule.provenance = "tuned, the static choice does not run: " + r.schedule.provenance;
  r.best_seconds = best.seconds;
  r.improved = true;
  return r;
}

// Records the result without a race as chosen, so that a look-up in the log finds it and not the
// fastest time of the screening.
TaskResult Tuner::without_race(const TaskRun& run) {
  TaskResult r = by_screening(run);
  if (run.leaders().empty() || r.best_seconds <= 0) return r;
  MeasureResult screened;
  screened.seconds = {r.best_seconds};
  record(run, &*r.config, r.schedule, screened, Verdict::Chosen, protocol_of(run));
  return r;
}

TaskResult Tuner::race(int task, double seconds, const TuneClock& clock) {
  TaskRun& run = runs_[static_cast<size_t>(task)];
  const size_t rule = static_entrant(run);
  const std::vector<Entrant> entrants = entrants_of(run, most_entrants(run, seconds));
  if (entrants.size() == 1) return without_race(run);

  show("race", task);
  std::vector<Schedule> schedules;
  for (const Entrant& e : entrants) schedules.push_back(e.schedule);
  std::vector<MeasureResult> results;
  try {
    Timed timed(*this, "race");
    results = measurer_->race(run.task, schedules, seconds, clock);
    HEDDLE_ICHECK(results.size() == entrants.size(),
                  "a race of " + std::to_string(entrants.size()) + " gave " +
                      std::to_string(results.size()) + " results");
  } catch (const Error& e) {
    measurer_is_gone_ = ended_ == TuneEnd::Failed;
    failed("the final race of " + run.task.name + " failed: " + e.message);
    return without_race(run);
  }
  if (results[rule].ok()) {
    for (MeasureResult& r : results) r.base_seconds = results[rule].median();
  }
  auto not_raced = [](const MeasureResult& r) { return r.error == MeasureError::Cancelled; };
  // Screening showed that the static choice works. An error in the race (stopped, out of memory, a
  // check with another result) does not refute that.
  const bool static_lost_by_chance =
      !results[rule].ok() && !not_raced(results[rule]) && run.progress.static_seconds > 0;
  const bool decided = !not_raced(results[0]) && !static_lost_by_chance &&
                       results[rule].error != MeasureError::WrongAnswer &&
                       !std::all_of(results.begin() + 1, results.end(), not_raced);
  const int winner = decided ? measuring::race_winner(results) : -1;
  for (size_t i = 0; i < entrants.size(); ++i) {
    if (not_raced(results[i]) || (static_lost_by_chance && i == rule)) continue;
    record(run, entrants[i].config ? &*entrants[i].config : nullptr, entrants[i].schedule,
           results[i], static_cast<int>(i) == winner ? Verdict::Won : Verdict::Raced,
           protocol_of(run));
    if (results[i].error != MeasureError::None) run.add_failure(results[i].error);
  }
  if (results[rule].error == MeasureError::WrongAnswer) doubt(run, results[rule].message);
  if (!decided) return without_race(run);
  return raced_result(run, entrants, results, static_cast<size_t>(std::max(winner, 0)));
}

TaskResult Tuner::raced_result(const TaskRun& run, const std::vector<Entrant>& entrants,
                               const std::vector<MeasureResult>& results, size_t won) const {
  const size_t rule = static_entrant(run);
  TaskResult r = result_of(run);
  r.rounds = static_cast<int>(results[results[0].ok() ? 0 : won].seconds.size());
  if (results[rule].ok()) r.static_seconds = results[rule].median();
  if (!run.standing) r.best_seconds = r.static_seconds;
  if (results[won].ok()) r.best_seconds = results[won].median();
  if (won == 0) return r;
  const Entrant& e = entrants[won];
  r.config = e.config;
  r.schedule = e.schedule;
  r.improved = won != rule;
  r.dropped = won == rule;
  if (r.improved)
    r.schedule.provenance = e.config ? "tuned: " + e.schedule.provenance : "tuned: replayed record";
  return r;
}

void Tuner::settle(TaskRun& run, const TaskResult& result) {
  run.progress.static_seconds = result.static_seconds;
  run.progress.best_seconds = result.best_seconds;
  run.progress.settled = true;
}

std::vector<TaskResult> Tuner::finish() {
  if (races_jointly() && !clock_.cancelled()) return finish_jointly();
  // The largest gains race first, in case the time runs out.
  std::vector<int> order(runs_.size());
  std::iota(order.begin(), order.end(), 0);
  auto gain = [&](int i) {
    const TaskProgress& p = runs_[static_cast<size_t>(i)].progress;
    const double gained = p.weight * (p.static_seconds - p.best_seconds);
    return gains_ == Gains::OfEachTask && p.static_seconds > 0 ? gained / p.static_seconds : gained;
  };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return gain(a) > gain(b); });
  double need = 0;
  for (const TaskRun& run : runs_) need += race_need(run, kRaceRounds);
  const double all = need;

  std::optional<TuneClock> grace;  // begins with the first race after the cancellation
  std::vector<std::optional<TaskResult>> results(runs_.size());
  for (int i : order) {
    TaskRun& run = runs_[static_cast<size_t>(i)];
    double mine = race_need(run, kRaceRounds), left = clock_.left_s();
    // The race gets its part of the share, at least twice and at most four times its likely time,
    // and never more than its part of the remaining time. A search that ended early gives its
    // remaining time to races.
    double part = mine / std::max(need, 1e-9), seconds = 2 * mine;
    if (std::isfinite(left)) {
      const double share = options_.final_race_share * total_ * mine / std::max(all, 1e-9);
      seconds = std::min(std::clamp(share, 2 * mine, 4 * mine), left * part);
    }
    need -= mine;
    // A few races that prove something are better than many that do not. Where time is short, a
    // task with an expected gain gets the shortest such race while there is time, and a task
    // without one gets none.
    const double least = std::min(mine, least_race(run));
    bool can = mine > 0 && !run.in_doubt() && !clock_.expired() && !measurer_is_gone_;
    if (seconds < least) {
      can = can && gain(i) > 0 && left > 0.25 * least;
      seconds = std::min(least, left);
    }
    std::optional<TaskResult>& result = results[static_cast<size_t>(i)];
    if (can) result = race(i, seconds, clock_);
    // A cancelled run ends at once, except for the shortest race of tasks with an expected gain.
    if (clock_.cancelled() && mine > 0 && gain(i) > 0 && !run.in_doubt()) {
      if (!grace) grace.emplace(kGraceSeconds);
      if (!grace->expired()) result = race(i, std::min(least, grace->left_s()), *grace);
    }
    if (!result) result = without_race(run);
    settle(run, *result);
  }
  std::vector<TaskResult> out;
  for (std::optional<TaskResult>& r : results) out.push_back(std::move(*r));
  return out;
}

}  // namespace heddle::search
