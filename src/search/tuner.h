// Tuner: one run of tune_tasks.
//
//   resume    measurements of the log count as measured and train the model
//   static    the static choice of every task
//   search    rounds: the scheduler picks a task, its policy proposes, the measurer measures, every
//             result is on disk as it arrives, the model learns
//   race      the leaders against the static choice, within a share of the budget kept for it
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <span>
#include <unordered_set>

#include "search/prediction_log.h"
#include "search/task_run.h"
#include "search/task_scheduler.h"
#include "search/tune_log.h"

namespace heddle::search {

/// Where the next round goes: where sum(weight x time) falls most, or for tasks that are not parts
/// of one call, where a task gains the largest share of its own time, times its weight.
enum class Gains : uint8_t { OfTheSum, OfEachTask };

/// Throws a User error for options that tuning cannot follow.
void check_tuning(std::span<const TuneTask> tasks, const TuneOptions& options);

class Tuner {
 public:
  Tuner(std::vector<TuneTask> tasks, const TuneOptions& options, Gains gains = Gains::OfTheSum);
  TuneReport run();

 private:
  // Set-up and resumption (tuner_setup.cpp).
  void resume();
  SearchPolicyFactory policy_factory() const;
  std::string protocol_of(const TaskRun& run) const;
  void train(TaskRun& run, const std::vector<Candidate>& measured);

  // The search (tuner.cpp).
  void measure_static();
  /// The weight of a task in the choice of the next round.
  double weight_of(const TaskRun& run) const;
  /// The share that nearness is about.
  double within() const;
  void read_certificate(TaskRun& run);
  double least_seconds_of(const TaskRun& run) const;
  double another_minute() const;
  void doubt(const TaskRun& run, const std::string& message);
  void search();
  bool round(int task, int count);
  int round_size(int task, double left) const;
  void announce_static_choices(size_t first);
  double trials_left(const TaskRun& run) const;
  std::vector<Candidate> take_pending(TaskRun& run, size_t count);
  void take_what_was_measured_ahead();
  void look_ahead(int task, size_t in_batch, size_t count);
  std::vector<Config> seeds_from_similar(int task) const;
  std::vector<Candidate> propose(int task, int count, bool* exhausted);
  std::vector<Candidate> candidates(TaskRun& run, const std::vector<Config>& configs);
  void measure(int task, std::vector<Candidate>& batch, const TuneClock& clock);
  void record(const TaskRun& run, const Config* config, const Schedule& schedule,
              const MeasureResult& result, Verdict verdict, const std::string& protocol,
              double predicted = std::numeric_limits<double>::quiet_NaN());
  /// Notes why the search or a race could not go on.
  void failed(const std::string& why);
  void show(const std::string& phase, int active = -1);
  TuneProgress progress(const std::string& phase, int active) const;

  // The final race (tuner_race.cpp).
  struct Entrant {
    std::optional<Config> config;  ///< none: a replayed record, or what an earlier run chose
    Schedule schedule;
  };
  /// The choice that stands, the static one if that is another, replayed records and the leaders,
  /// `most` in all, and one
  /// more where another choice stands.
  std::vector<Entrant> entrants_of(const TaskRun& run, int most) const;
  /// The position of the static choice among them.
  static size_t static_entrant(const TaskRun& run) { return run.standing ? 1 : 0; }
  double race_need(const TaskRun& run, int rounds) const;
  double least_race(const TaskRun& run) const;
  double reserve() const;
  std::vector<TaskResult> finish();
  TaskResult without_race(const TaskRun& run);
  TaskResult race(int task, double seconds, const TuneClock& clock);
  TaskResult by_screening(const TaskRun& run) const;
  /// The result of a race in which the entrant `won` won.
  TaskResult raced_result(const TaskRun& run, const std::vector<Entrant>& entrants,
                          const std::vector<MeasureResult>& results, size_t won) const;
  TaskResult result_of(const TaskRun& run) const;
  void settle(TaskRun& run, const TaskResult& result);

  // The final race of all tasks at once (tuner_joint_race.cpp).
  bool races_jointly() const;
  double joint_need() const;
  std::vector<size_t> joint_priority() const;
  std::vector<TaskResult> finish_jointly();
  TaskResult joint_result(TaskRun& run, const std::vector<Entrant>& entrants,
                          const std::vector<MeasureResult>& results, int winner, bool proven);

  /// Adds its lifetime to the time of a phase.
  class Timed {
   public:
    Timed(Tuner& tuner, const char* phase) : tuner_(tuner), phase_(phase) {}
    ~Timed() { tuner_.phases_[phase_] += clock_.elapsed_s(); }
    Timed(const Timed&) = delete;
    Timed& operator=(const Timed&) = delete;

   private:
    Tuner& tuner_;
    const char* phase_;
    TuneClock clock_;
  };

  const TuneOptions& options_;
  const Gains gains_;
  TuneClock own_clock_;
  TuneClock& clock_;
  double total_;  ///< the budget in seconds; may be infinite
  FeatureFunction features_;
  std::unique_ptr<Measurer> own_measurer_;
  Measurer* measurer_;
  std::unique_ptr<CostModel> own_model_;
  CostModel* model_;
  TuneLog log_;
  std::unordered_set<uint64_t> declared_;  ///< tasks whose declaration the log has, by its hash
  std::vector<TaskRun> runs_;
  std::optional<TaskScheduler> scheduler_;
  PredictionLog predictions_;
  std::map<std::string, double> phases_;
  std::vector<std::string> problems_;
  TuneEnd ended_ = TuneEnd::None;
  std::string failure_;            ///< why the search or a race could not go on
  bool measurer_is_gone_ = false;  ///< after the search a race failed as well
  std::optional<NetworkTimes> network_;
  int trials_ = 0;
};

}  // namespace heddle::search
