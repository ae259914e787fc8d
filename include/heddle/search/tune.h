// tune: a better schedule than the static one, under a time budget.
//
//   TuneResult best = tune({D}, {.budget = 60s, .log = "dense.jsonl"});
//   Kernel kernel = build(best.schedule, {A, B, bias, D});
//
// All measurements are appended to the log. A second call with the same log continues where the
// first one stopped and never measures a config twice. The returned schedule is never slower than
// the static choice: the final best is timed against it in interleaved rounds and loses ties.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heddle/cost_model/cost_model.h"
#include "heddle/dag/user_choice.h"
#include "heddle/measure/measure.h"
#include "heddle/search/search_policy.h"

namespace heddle {

/// The current state of a task, a row of a progress display.
struct TaskProgress {
  std::string name;
  double weight = 1;  ///< calls
  int trials = 0;     ///< measured this run, failures included
  int failures = 0;
  int resumed = 0;   ///< trials taken over from the log
  double flops = 0;  ///< operations of one call
  /// 0 until measured. Until `settled` they are screened times, measured once or twice each, and
  /// the smallest of many is probably a lucky one. Afterwards they are the times of the final race,
  /// as in the report.
  double static_seconds = 0, best_seconds = 0;
  bool settled = false;
  bool converged = false;
  double near = 0;  ///< as TaskResult::near
};

/// The state of a run, for TuneOptions::progress. Times are in seconds.
struct TuneProgress {
  std::vector<TaskProgress> tasks;
  int active = -1;    ///< index of the active task
  std::string phase;  ///< "static", "search", "measure", "train", "race", "done"
  int trials = 0;
  double elapsed_seconds = 0, left_seconds = 0;
  double static_seconds = 0, best_seconds = 0;  ///< weighted sums over tasks: the whole network
  double trials_per_second = 0;
  std::vector<NodeUse> nodes = {};  ///< devices of a measurer that has several
};

/// How the race of a whole network ended.
enum class RaceResult : uint8_t {
  NoTime,         ///< the budget ended before
  NothingToRace,  ///< no task had a candidate
  NotRaced,       ///< the race could not be held (NetworkTimes::problems)
  NotProven,      ///< the static schedules were returned
  Faster,         ///< by a sign test over the rounds
  AnswersDiffer,  ///< the outputs of the two differed, so the static schedules were returned
};
const char* to_string(RaceResult result);

/// Times of the whole network with the tuned schedules and with the static choices, called in
/// turns.
struct NetworkTimes {
  double static_seconds = 0, best_seconds = 0;  ///< seconds of one call, medians
  /// With the choices that stood (TuneOptions::standing); 0: there were none, or no race of them.
  double standing_seconds = 0;
  int rounds = 0;   ///< number of rounds in which both were timed
  int changed = 0;  ///< number of tasks with another schedule than the static one
  RaceResult verdict = RaceResult::NoTime;
  std::vector<std::string> problems = {};  ///< problems of the race, for reports

  /// With what the race began with.
  double before_seconds() const { return standing_seconds > 0 ? standing_seconds : static_seconds; }
};

/// A race of all tasks at once in their network (network/race/network_race.cpp).
class JointRace {
 public:
  struct Verdict {
    /// results[task][schedule]: the times of one call within the network. Cancelled: the schedule
    /// did not race.
    std::vector<std::vector<MeasureResult>> results;
    std::vector<int> winners;  ///< for each task the winning schedule; 0: the choice that stands
    NetworkTimes whole;
  };
  virtual ~JointRace() = default;
  /// Races. `schedules` has a list for each task. Its first entry stands unless others are proven
  /// to be faster: the static choice, or what an earlier run chose. `statics` are the positions of
  /// the static choices in these lists; empty: they are the first ones. `priority` has all tasks,
  /// the most promising first, because there may not be time or memory for all schedules. The race
  /// takes about `seconds`, and ends when `clock` expires.
  virtual Verdict race(std::span<const std::vector<Schedule>> schedules,
                       std::span<const int> statics, std::span<const size_t> priority,
                       double seconds, const TuneClock& clock) = 0;
};

/// Options of tune().
struct TuneOptions {
  std::chrono::duration<double> budget{60.0};  ///< seconds of all of it
  int max_trials = 0;                          ///< of all tasks; 0: until the budget ends
  std::string log = {};  ///< record log to resume from and append to; empty: nothing is kept
  /// For tune(outputs): empty means this machine and the options of this thread's scope. Tasks and
  /// networks have their own target and options. Different ones here are a User error.
  std::optional<Target> target = {};
  std::optional<AutoSchedulerOptions> scheduler = {};  ///< as `target`
  /// Graphs of the caller that compute the same outputs from the same inputs, as alternatives to
  /// those of the rules (dag/user_choice.h). Each is checked numerically against the declaration
  /// before it is tuned. Only for one task: several are a User error.
  std::vector<UserChoice> choices = {};
  /// For each task what an earlier run chose, such as a plan has it. It stands unless the final race
  /// proves that another schedule is faster; the static choice races, too. Empty, or nothing for a
  /// task: the static choice stands.
  std::vector<std::optional<Schedule>> standing = {};
  uint64_t seed = 0;  ///< of the search
  int batch = 32;     ///< candidates of one round
  MeasureProtocol protocol = {};
  double final_race_share = 0.1;  ///< share of the budget for the race of the leaders
  bool warm_start = true;         ///< start with seeds and the model of tophub
  /// A task is converged after this number of rounds, and half of all its rounds, without a gain of
  /// 1 %. Tuning ends early when all tasks are converged. 0: never.
  int patience = 10;
  /// Tuning ends early when each task is probably, by 0.8, within this share of what more tuning would
  /// find, such as 0.05: by the certificate of its static choice (heuristics/certificate.h) and the
  /// trials without a gain since. A task also ends within this share of the least time that the machine
  /// allows. Rounds go where it is least probable and most time is spent. 0: `budget` and `patience`
  /// alone end it.
  double until = 0;
  /// Replacements for parts of the tuner. The pointers must outlive the call.
  Measurer* measurer = nullptr;
  /// For the measurer that is made where none is given (WorkerOptions::runs_at_once).
  int runs_at_once = 0;
  CostModel* model = nullptr;       ///< default: XGBoost, see warm_start
  SearchPolicyFactory policy = {};  ///< default: evolution
  FeatureFunction features = {};    ///< default: schedule_features
  /// Replaces the final race of each task. It takes up to twice `final_race_share`, because all
  /// tasks race in it. tune(Network) provides its own.
  JointRace* joint_race = nullptr;
  TuneClock* clock =
      nullptr;  ///< cancellation token: clock->cancel(); its budget replaces `budget`
  std::function<void(const TuneProgress&)> progress = {};  ///< from the calling thread
};

/// The results of one graph of a task: that of the declaration, or an alternative of it.
struct AlternativeResult {
  std::string name = {};  ///< empty for the declaration as it is
  std::string template_name = {};
  Numerics numerics = Numerics::Exact;
  double error_growth = 1;
  std::string why_not = {};  ///< why it was not considered; empty where it was
  int trials = 0;            ///< trials that ran, earlier runs of the log included
  double best_seconds = 0;   ///< screened, or of the final race for its winner; 0: nothing ran
  Json config = {};          ///< the knobs of its best, as in records; null where there is none
};

/// The result for one task.
struct TaskResult {
  std::string name;
  std::optional<Config> config;  ///< config of the best; absent when that is a replayed record
  Schedule schedule;             ///< the best, or the static one
  double static_seconds = 0, best_seconds = 0;  ///< seconds in the final race, medians
  int rounds = 0;                               ///< of that race; 0: there was none
  int trials = 0, failures = 0;
  std::vector<std::pair<MeasureError, int>> failures_by_kind = {};
  std::vector<RejectionCount> rejections = {};  ///< candidates refused before measuring
  bool improved = false;                        ///< false: the static schedule was returned
  bool dropped = false;  ///< what stood (TuneOptions::standing) lost to the static schedule
  /// The probability that the best is within TuneReport::within of what more tuning would find.
  double near = 0;
  /// Results of the declaration first, then of the alternatives of rules, then of the caller's
  /// choices.
  std::vector<AlternativeResult> alternatives = {};
};

/// Why a search ended.
enum class TuneEnd : uint8_t {
  None,       ///< it has not ended
  Budget,     ///< the time was spent
  Trials,     ///< TuneOptions::max_trials were made
  Converged,  ///< nothing more to gain, or all spaces are exhausted
  Near,       ///< probably within TuneOptions::until of what more tuning would find
  Cancelled,  ///< by the caller or by Ctrl-C
  Failed,     ///< it could not go on (TuneReport::failure)
};
const char* to_string(TuneEnd end);

/// The results of a run for all tasks.
struct TuneReport {
  std::vector<TaskResult> tasks;
  int trials = 0;
  double elapsed_seconds = 0;
  bool cancelled = false;
  TuneEnd ended = TuneEnd::None;
  double within = 0;  ///< the share that TaskResult::near is about: TuneOptions::until, or 0.05
  /// The part of sum(weight x time) that another minute of tuning would save on average, as tuning of
  /// other tasks went (docs/measurements/tuning.md).
  double another_minute = 0;
  /// The reason why the search or a race could not go on, such as a fleet that is gone; empty where
  /// all was done. Results are those of what was measured before.
  std::string failure = {};
  /// Where the time is spent, in seconds: wall clock by phase ("resume", "search", "measure",
  /// "train", "record", "race"), then the parts that the measurer reports ("measure.compile", ...).
  std::vector<std::pair<std::string, double>> time_spent;
  std::optional<NetworkTimes>
      network;  ///< times of the race of a whole network, where there was one
  /// Of tune(Network): the choices about the graph of the network that the tasks are of, as
  /// parse_passes reads them (network/passes.h).
  std::optional<std::string> passes = {};
  ModelAccuracy model;  ///< accuracy over candidates predicted before they were measured
  std::vector<NodeUse> nodes = {};  ///< devices of a measurer that has several
  std::string log;                  ///< the file of the records
  int unwritten = 0;  ///< records that could not be written, as on a full disk (see problems)
  /// Failures that did not stop the run: records that could not be written or read, a model that
  /// could not be loaded, a measurer that gave up. None of them makes a result wrong.
  std::vector<std::string> problems;
  /// Remarks on how it was measured (Measurer::remarks).
  std::vector<std::string> remarks = {};
};

/// Tunes several tasks under one budget. Each task gets one round first, and further rounds go
/// where they shorten sum(weight x time) most (gradient of Ansor, section 6).
TuneReport tune_tasks(std::vector<TuneTask> tasks, const TuneOptions& options = {});

/// The result for one declaration.
struct TuneResult : TaskResult {
  TuneReport report;
};
/// Tunes one declaration.
TuneResult tune(const std::vector<Tensor>& outputs, const TuneOptions& options = {});

}  // namespace heddle
