// TaskRun: one task of a tuning run: what was measured of it, and its best so far.
#pragma once

#include <memory>
#include <unordered_set>

#include "heddle/search/tune.h"

namespace heddle {

/// A candidate of a round, from proposal to result.
struct Candidate {
  Config config;
  Schedule schedule;
  uint64_t key = 0;        ///< steps_hash of the schedule
  Features features = {};  ///< empty when they could not be had
  double predicted = 0;
  bool was_predicted = false;
  MeasureResult result = {};  ///< Cancelled until measured
  double seconds = 0;         ///< of the result, adjusted; infinity for a failure
};

/// A measured candidate that may win.
struct Leader {
  Config config;
  uint64_t key = 0;
  double seconds = 0;
};

class TaskRun {
 public:
  explicit TaskRun(TuneTask t);

  TuneTask task;
  std::unique_ptr<SearchPolicy> policy;
  std::vector<Schedule> replayed;  ///< of another version of the template: race without a config
  TaskProgress progress;
  std::vector<std::pair<MeasureError, int>> failures_by_kind;

  const std::string shape_class;  ///< equal for tasks that differ in extents only

  uint64_t static_key() const { return static_key_; }
  bool was_measured(uint64_t key) const { return measured_.contains(key); }
  /// What became of the static choice; None before it was measured.
  MeasureError static_error() const { return static_error_; }
  /// The static choice gave what the check calls wrong. Who of the two errs is not known, so that
  /// no result of this task is to be trusted.
  bool in_doubt() const { return static_error_ == MeasureError::WrongAnswer; }
  /// What took `seconds` while the static choice took `base` (0: not known), on the machine as it
  /// was when the static choice was measured first. What is compared, and learned, are these.
  double adjusted(double seconds, double base);
  /// Takes a result in: fails, static and best times, leaders. `seconds` are adjusted.
  void add(const Config& config, uint64_t key, double seconds, MeasureError error);
  /// A fault found in the race.
  void add_failure(MeasureError error);
  /// Proposed by the search before the last batch was measured; comes next.
  std::vector<Candidate> pending;

  /// A config that somebody's own policy proposed and that is not legal, or one that compiled to
  /// what is not worth measuring.
  void reject(const std::string& why);
  /// The policy's and these.
  std::vector<RejectionCount> rejections() const;
  /// What a trial cost.
  void add_cost(const MeasureResult& result);

  /// Fastest first, the static choice left out.
  const std::vector<Leader>& leaders() const { return leaders_; }
  /// What was measured of a graph of the task.
  struct Branch {
    int trials = 0;  ///< that ran
    double seconds = 0;
    std::optional<Config> best;
  };
  /// By branch of the template; shorter where the last ones were not measured.
  const std::vector<Branch>& branches() const { return branches_; }
  /// Of one trial, mean so far; 0 before the first.
  double seconds_per_trial() const { return costs_ > 0 ? cost_ / costs_ : 0; }
  double compile_seconds() const { return costs_ > 0 ? compile_ / costs_ : 0; }
  /// Best known, the static choice included; 0: nothing works yet.
  double best_seconds() const { return progress.best_seconds; }

 private:
  uint64_t static_key_;
  MeasureError static_error_ = MeasureError::None;
  std::unordered_set<uint64_t> measured_;
  std::vector<Leader> leaders_;
  std::vector<Branch> branches_;
  std::vector<RejectionCount> rejected_;
  double reference_ = 0;  ///< the first time of the static choice
  double cost_ = 0, compile_ = 0;
  int costs_ = 0;
};

}  // namespace heddle
