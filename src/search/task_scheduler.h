// TaskScheduler: selects the task of the next round of tuning.
//
// Every task with a relevant share of the time gets one round, the most expensive first. A task
// with a smaller share of sum(weight x time) waits until its first round promises more than another
// round of a larger one. Then it selects the task whose next round promises to shorten sum(weight x
// time) most per second spent: the gradient of Ansor (Zheng et al., OSDI 2020, section 6.2), with
// alpha = 0.2, beta = 2 and a window of 3 rounds:
//
//   alpha x (what its last rounds gained, a round)
//   + (1 - alpha) x the more optimistic of:
//       the time falls by time / rounds, as if all rounds so far had gained equally;
//       the task becomes half as fast as the fastest similar task
//     but no more than what is left to the least time that the machine allows
//
// Ansor counts rounds, because it takes them as equally long. Here the seconds of rounds count.
//
// Where tuning ends within a share of what more of it would find (SchedulerOptions::until), a promise counts as far as
// it is probable that there is more (search/nearness.h), and a task ends when there probably is not.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace heddle::search {

struct SchedulerTask {
  double weight = 1;
  double flops = 0;
  int similar = -1;          ///< tasks of the same class (not -1) should reach similar FLOP/s
  double start_seconds = 0;  ///< time of the static choice; 0: not known (it failed)
  double least_seconds = 0;  ///< no schedule is faster than this; 0: not known
  double near =
      0;  ///< probability that the static choice is within SchedulerOptions::until of the best
};

struct SchedulerOptions {
  double alpha = 0.2, beta = 2;
  int window = 3;
  /// A task has converged after `patience` rounds, and after half of all its rounds, without a gain
  /// of `min_gain`.
  int patience = 10;  ///< 0: never
  double min_gain = 0.01;
  double min_share = 0.02;  ///< share of sum(weight x time) for an early first round
  /// A task ends when it is probable by `enough` that its time is within this share of what more
  /// rounds would find, or when its time is within it of the least. 0: never.
  double until = 0;
  double enough = 0.8;
};

class TaskScheduler {
 public:
  explicit TaskScheduler(std::vector<SchedulerTask> tasks, SchedulerOptions options = {});

  /// The selected task; -1 when every task is done.
  int next() const;
  /// Called after a round of `task` with its best time so far (0: still none) and the cost of the
  /// round. `near`: the probability that this time is within SchedulerOptions::until of the best.
  void report(int task, double best_seconds, double spent_seconds, double near = 0);
  /// States that no candidate of the task is left.
  void finish(int task) { states_[static_cast<size_t>(task)].done = true; }
  /// Whether the task is finished or has converged.
  bool done(int task) const { return states_[static_cast<size_t>(task)].done; }
  /// Whether a task ended because its time is near enough to the best.
  bool any_near() const {
    return std::any_of(states_.begin(), states_.end(), [&](const State& s) { return near(s); });
  }
  int rounds(int task) const {
    return static_cast<int>(states_[static_cast<size_t>(task)].best.size()) - 1;
  }
  /// The number of tasks without a round that get one before any other task gets a second.
  int waiting() const;
  /// The expected gain of sum(weight x time) per second of tuning, by which `next` selects.
  double promise(int task) const;

 private:
  struct State {
    SchedulerTask task;
    std::vector<double> best;  ///< best times before the first round and after each round
    double spent = 0;
    double gained_from = 0;  ///< the time that a gain is measured against
    int last_gain = 0;       ///< round of the last gain
    bool done = false;
    bool small = false;  ///< its share of the time is below min_share

    bool waits() const { return !done && !small && best.size() == 1; }
  };
  bool near(const State& s) const;
  double cost_of_round(const State& s) const;
  double best_of_similar(int task) const;

  std::vector<State> states_;
  SchedulerOptions options_;
};

}  // namespace heddle::search
