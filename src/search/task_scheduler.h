// TaskScheduler: which task the next round of tuning goes to.
//
// Every task that matters gets one round, the most expensive first. A task with a smaller share of
// sum(weight x time) waits until its first round promises more than another round of a larger one.
// Then the task whose next round promises to shorten sum(weight x time) most per second spent: the
// gradient of Ansor (Zheng et al., OSDI 2020, section 6.2), with alpha = 0.2, beta = 2 and a window
// of 3 rounds:
//
//   alpha x (what its last rounds gained, a round)
//   + (1 - alpha) x the more optimistic of: the time falls by time / rounds, as if rounds so far
//   had
//     each gained alike; or the task becomes half as fast as the fastest task like it
//
// in place of "most rounds": Ansor counts rounds as equally long, a budget in seconds may not.
#pragma once

#include <cstddef>
#include <vector>

namespace heddle {

struct SchedulerTask {
  double weight = 1;
  double flops = 0;
  int similar = -1;          ///< tasks of the same number (not -1) should reach similar FLOP/s
  double start_seconds = 0;  ///< of the static choice; 0: not known (it failed)
};

struct SchedulerOptions {
  double alpha = 0.2, beta = 2;
  int window = 3;
  /// Converged: no gain of `min_gain` for `patience` rounds, nor for half of all its rounds.
  int patience = 10;  ///< 0: never
  double min_gain = 0.01;
  double min_share = 0.02;  ///< of sum(weight x time), for a first round before all others
};

class TaskScheduler {
 public:
  explicit TaskScheduler(std::vector<SchedulerTask> tasks, SchedulerOptions options = {});

  /// -1 when every task is done.
  int next() const;
  /// After a round of `task`: its best time so far (0: still none) and what the round cost.
  void report(int task, double best_seconds, double spent_seconds);
  /// Nothing is left to try.
  void finish(int task) { states_[static_cast<size_t>(task)].done = true; }
  /// Finished or converged.
  bool done(int task) const { return states_[static_cast<size_t>(task)].done; }
  int rounds(int task) const {
    return static_cast<int>(states_[static_cast<size_t>(task)].best.size()) - 1;
  }
  /// Tasks without a round yet that get one before any other task gets a second.
  int waiting() const;
  /// Expected gain of sum(weight x time) per second of tuning; what `next` compares.
  double promise(int task) const;

 private:
  struct State {
    SchedulerTask task;
    std::vector<double> best;  ///< before the first round, and after each
    double spent = 0;
    double gained_from = 0;  ///< the time that a gain is measured against
    int last_gain = 0;       ///< round
    bool done = false;
    bool small = false;  ///< its share of the time is below min_share

    bool waits() const { return !done && !small && best.size() == 1; }
  };
  double cost_of_round(const State& s) const;
  double best_of_similar(int task) const;

  std::vector<State> states_;
  SchedulerOptions options_;
};

}  // namespace heddle
