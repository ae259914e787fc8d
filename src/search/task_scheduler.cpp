#include "search/task_scheduler.h"

#include <algorithm>
#include <limits>

namespace heddle::search {
namespace {

constexpr int kRoundsToJoinPeers = 5;
// The share of a task's time that a round may gain in any case: rates and times are not exact.
constexpr double kAlwaysHoped = 0.01;

}  // namespace

TaskScheduler::TaskScheduler(std::vector<SchedulerTask> tasks, SchedulerOptions options)
    : options_(options) {
  for (const SchedulerTask& t : tasks)
    states_.push_back({.task = t, .best = {t.start_seconds}, .gained_from = t.start_seconds});
  double total = 0;
  for (const SchedulerTask& t : tasks) total += t.weight * t.start_seconds;
  for (State& s : states_) {
    const double share = s.task.weight * s.task.start_seconds;
    s.small = share > 0 && share < options_.min_share * total;
    s.done = near(s);
  }
}

// A least time that is clearly above a measured one is wrong.
bool TaskScheduler::near(const State& s) const {
  const double now = s.best.back(), least = s.task.least_seconds;
  if (options_.until <= 0 || now <= 0) return false;
  const bool at_least = now <= (1 + options_.until) * least && now >= (1 - options_.until) * least;
  return s.task.near >= options_.enough || at_least;
}

int TaskScheduler::waiting() const {
  return static_cast<int>(
      std::count_if(states_.begin(), states_.end(), [](const State& s) { return s.waits(); }));
}

int TaskScheduler::next() const {
  bool first = waiting() > 0;
  int chosen = -1;
  double most = 0;
  for (int i = 0; i < static_cast<int>(states_.size()); ++i) {
    const State& s = states_[static_cast<size_t>(i)];
    if (s.done || (first && !s.waits())) continue;
    // In the first rounds, tasks that are not known to be fast go first. Ties go to the earlier
    // task.
    double value = !first             ? promise(i)
                   : s.best[0] <= 0.0 ? std::numeric_limits<double>::infinity()
                                      : s.task.weight * s.best[0];
    if (chosen < 0 || value > most) {
      chosen = i;
      most = value;
    }
  }
  return chosen;
}

// FLOP/s of the fastest task that is similar to this one. A task that stays far behind for several
// rounds is not similar after all.
double TaskScheduler::best_of_similar(int task) const {
  const State& own = states_[static_cast<size_t>(task)];
  double best = 0;
  for (const State& s : states_) {
    if (s.task.similar < 0 || s.task.similar != own.task.similar || s.best.back() <= 0) continue;
    best = std::max(best, s.task.flops / s.best.back());
  }
  bool behind = own.best.back() > 0 && options_.beta * own.task.flops / own.best.back() < best;
  return behind && rounds(task) > kRoundsToJoinPeers ? 0 : best;
}

// Seconds of a round of the task; for a task without a round, the average of the others.
double TaskScheduler::cost_of_round(const State& s) const {
  if (s.best.size() > 1) return std::max(s.spent / static_cast<double>(s.best.size() - 1), 1e-9);
  double spent = 0, rounds = 0;
  for (const State& other : states_) {
    spent += other.spent;
    rounds += static_cast<double>(other.best.size() - 1);
  }
  return rounds > 0 ? std::max(spent / rounds, 1e-9) : 1e-9;
}

double TaskScheduler::promise(int task) const {
  const State& s = states_[static_cast<size_t>(task)];
  double now = s.best.back();
  // No candidate worked so far. The first round may change that; after many rounds it is unlikely.
  int done_rounds = std::max(1, rounds(task));
  const double cost = cost_of_round(s);
  if (now <= 0) return s.task.weight / (cost * done_rounds);
  int window = std::min(options_.window, rounds(task));
  double before = window > 0 ? s.best[s.best.size() - 1 - static_cast<size_t>(window)] : 0;
  double recent = before > 0 ? (before - now) / window : 0;
  double hoped = now / done_rounds;
  if (double peers = best_of_similar(task); peers > 0)
    hoped = std::max(hoped, now - options_.beta * s.task.flops / peers);
  if (s.task.least_seconds > 0)
    hoped = std::min(hoped, std::max(now - s.task.least_seconds, kAlwaysHoped * now));
  const double more = options_.until > 0 ? 1 - s.task.near : 1;  // probability
  return more * s.task.weight * (options_.alpha * recent + (1 - options_.alpha) * hoped) / cost;
}

void TaskScheduler::report(int task, double best_seconds, double spent_seconds, double near) {
  State& s = states_[static_cast<size_t>(task)];
  s.best.push_back(best_seconds);
  s.spent += spent_seconds;
  s.task.near = near;
  int round = rounds(task);
  if (best_seconds > 0 &&
      (s.gained_from <= 0 || best_seconds < s.gained_from * (1 - options_.min_gain))) {
    s.gained_from = best_seconds;
    s.last_gain = round;
  }
  int without = round - s.last_gain;
  if (options_.patience > 0 && without >= options_.patience && 2 * without >= round) s.done = true;
  s.done = s.done || this->near(s);
}

}  // namespace heddle::search
