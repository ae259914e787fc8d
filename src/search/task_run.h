// TaskRun: the state of one task of a tuning run: its measurements and its best schedule so far.
#pragma once

#include <memory>
#include <unordered_set>

#include "heddle/search/tune.h"
#include "search/nearness.h"

namespace heddle::search {

/// A candidate of a round, from proposal to result.
struct Candidate {
  Config config;
  Schedule schedule;
  uint64_t key = 0;        ///< steps_hash of the schedule
  Features features = {};  ///< empty where they could not be extracted
  double predicted = 0;
  bool was_predicted = false;
  MeasureResult result = {};  ///< Cancelled until measured
  double seconds = 0;         ///< adjusted seconds of the result; infinity for a failure
};

/// A measured candidate that may win the race.
struct Leader {
  Config config;
  uint64_t key = 0;
  double seconds = 0;
};

class TaskRun {
 public:
  explicit TaskRun(TuneTask t, std::optional<Schedule> standing = std::nullopt);

  TuneTask task;
  std::unique_ptr<SearchPolicy> policy;
  std::vector<Schedule>
      replayed;  ///< schedules of another version of the template, which race without a config
  /// What an earlier run chose, where that is not the static choice. It is not measured before the
  /// final race.
  std::optional<Schedule> standing;
  TaskProgress progress;
  Nearness nearness;  ///< of the best so far
  std::vector<std::pair<MeasureError, int>> failures_by_kind;

  const std::string shape_class;  ///< equal for tasks that differ in extents only

  uint64_t static_key() const { return static_key_; }
  bool was_measured(uint64_t key) const { return measured_.contains(key); }
  /// The error of the static choice; None before it was measured.
  MeasureError static_error() const { return static_error_; }
  /// The check rejects the static choice. Either may be wrong, so no result of this task is
  /// trusted.
  bool in_doubt() const { return static_error_ == MeasureError::WrongAnswer; }
  /// The time of a candidate, scaled to the state of the machine when the static choice was first
  /// measured. `seconds` was measured while the static choice took `base` (0: not known). Adjusted
  /// times are compared and learned.
  double adjusted(double seconds, double base);
  /// Adds a result: to failures, static and best times, and leaders. `seconds` are adjusted.
  void add(const Config& config, uint64_t key, double seconds, MeasureError error);
  /// Adds a failure that was found in the race.
  void add_failure(MeasureError error);
  /// Candidates that the search proposed before the last batch was measured. They are measured
  /// next.
  std::vector<Candidate> pending;
  /// The keys of all candidates that were proposed.
  std::unordered_set<uint64_t> proposed;

  /// Counts a config that a policy of the caller proposed and that is not legal, or a candidate
  /// that was rejected after compilation.
  void reject(const std::string& why);
  /// The rejections of the policy and of this task.
  std::vector<RejectionCount> rejections() const;
  /// Adds the cost of a trial.
  void add_cost(const MeasureResult& result);
  /// Adds a round in which several candidates were compiled or measured at the same time.
  void add_round(double wall_seconds, size_t trials);

  /// The leaders, the fastest first, without the static choice.
  const std::vector<Leader>& leaders() const { return leaders_; }
  /// The measurements of one graph of the task.
  struct Branch {
    int trials = 0;  ///< number of trials that ran
    double seconds = 0;
    std::optional<Config> best;
  };
  /// The graphs by branch of the template. The list is shorter where the last ones were not
  /// measured.
  const std::vector<Branch>& branches() const { return branches_; }
  /// The mean time of one trial so far, in seconds; 0 before the first. The wall time of rounds
  /// where these were added, otherwise the sum of compiling, running and checking.
  double seconds_per_trial() const;
  double compile_seconds() const { return costs_ > 0 ? compile_ / costs_ : 0; }
  /// The best known time, the static choice included; 0 where no candidate works yet.
  double best_seconds() const { return progress.best_seconds; }

 private:
  void add_time(const Config& config, uint64_t key, double seconds, MeasureError error);

  uint64_t static_key_;
  MeasureError static_error_ = MeasureError::None;
  std::unordered_set<uint64_t> measured_;
  std::vector<Leader> leaders_;
  std::vector<Branch> branches_;
  std::vector<RejectionCount> rejected_;
  double reference_ = 0;  ///< the first time of the static choice
  double cost_ = 0, compile_ = 0;
  int costs_ = 0;
  double round_seconds_ = 0;
  size_t round_trials_ = 0;
};

}  // namespace heddle::search
