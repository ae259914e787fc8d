// collect: measures the choices of a heuristic on problems that it draws, for training.
//
//   CollectReport r = collect(heuristic_of("contraction"), {.budget = 600s, .log = "data.jsonl"});
//   TrainedTree tree = train_tree(read_heuristic_log("data.jsonl"));
//
// The problems are a function of the seed: a second run with the same seed and log continues where
// the first one ended, and skips finished problems. Each problem is one line of the log, which is
// written when all its choices are measured, so that a killed process loses the current problem
// only. Several processes with different seeds may fill one log or several
// (heddle/heuristics/dataset.h: merge).
//
// All choices of a problem are timed beside the fallback, and the leaders race against each other.
// A machine drifts by tens of per cent within minutes, but the ratios of such times do not.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "heddle/heuristics/heuristic.h"
#include "heddle/measure/measure.h"
#include "heddle/schedule/template.h"

namespace heddle {

/// The schedules that the candidates of a heuristic make for a problem.
struct BuiltChoices {
  NamedFeatures features;                ///< features of the problem, as the template gives them
  Choice of_rule = Choice();             ///< the choice of the rule
  Template rule;                         ///< the template with the rule's choice (the fallback)
  std::vector<Schedule> schedules = {};  ///< distinct schedules; the first is that of the fallback
  /// Ids of choices, each with the index of the schedule that it makes. Several choices may make
  /// the same one.
  std::vector<std::pair<std::string, std::size_t>> choices = {};
  std::size_t question = 0;   ///< the stage that was asked about, in the order of the questions
  std::string fallback = {};  ///< id of the fallback
  std::vector<std::string> rejections = {};  ///< such as "{...}: the register tile must fit ..."
};

/// The schedules of a problem, or why the problem is not one of the heuristic.
struct BuildOutcome {
  std::string why_not = {};
  std::vector<BuiltChoices> built = {};  ///< one element, or none where why_not says why
};
/// Builds the schedules of all candidates of `heuristic` for the declaration of `outputs`.
/// `question` selects one of the stages that the heuristic is asked about. A number beyond the last
/// question counts from the first one again; the result then has its `question`, and no schedules.
BuildOutcome build_choices(const Heuristic& heuristic, const std::vector<Tensor>& outputs,
                           const Target& target, std::size_t question = 0);

/// A source that answers one heuristic with one choice, for problems with these features (for all
/// if there are none), and no other question.
std::shared_ptr<const ChoiceSource> planted_choice(std::string heuristic, Choice choice,
                                                   NamedFeatures features = {});

/// The state of a run, for CollectOptions::progress. Times are in seconds.
struct CollectProgress {
  std::string problem;  ///< the current problem; empty at the end
  int collected = 0, earlier = 0, skipped = 0;
  double elapsed_seconds = 0, left_seconds = 0;
};

/// Options of collect().
struct CollectOptions {
  std::chrono::duration<double> budget{600.0};
  int problems = 0;  ///< collected by this run; 0: until the budget ends
  /// Problems of the caller's, such as the nodes of a network. They are measured before any that
  /// are drawn, for each stage that the heuristic is asked about.
  std::vector<DrawnProblem> first = {};
  std::string log;
  Target target = Target::host();
  std::uint64_t seed = 1;
  std::string machine = {};      ///< a name for the log; empty: the target's chip
  Measurer* measurer = nullptr;  ///< must outlive the call; null: collect makes one
  std::string turns = {};        ///< of that one: WorkerOptions::turns
  TuneClock* clock = nullptr;    ///< cancellation; its budget replaces `budget`
  std::function<void(const CollectProgress&)> progress = {};  ///< called from the calling thread
};

/// Why a run ended.
enum class CollectEnd : uint8_t {
  None,      ///< it has not ended
  Budget,    ///< the time was spent
  Problems,  ///< CollectOptions::problems were collected, or no new one was found
  Cancelled,
};
const char* to_string(CollectEnd end);

/// The results of a run: numbers of problems, and messages.
struct CollectReport {
  int collected = 0, earlier = 0;  ///< problems of this run; problems that the log had before
  int skipped = 0;            ///< problems that are not of this heuristic, or have one choice only
  int failed = 0;             ///< problems whose fallback could not be measured
  int repeated = 0;           ///< problems that were too uncertain and were measured again
  double waited_seconds = 0;  ///< before that, until others left the cores alone
  CollectEnd ended = CollectEnd::None;
  std::vector<std::string> problems = {};  ///< messages of failed problems
};

/// Collects measurements and returns what was done. Throws a User error for a heuristic that draws
/// no problems or is for another kind of target, and for a log of another heuristic, version,
/// target or seed.
CollectReport collect(const Heuristic& heuristic, const CollectOptions& options);

/// The log of a heuristic, with one line for each problem. A program can also use it for choices of
/// its own: what it measures while it runs is training data.
class HeuristicLog {
 public:
  /// Opens the log, or creates it with a header. Throws a User error for a log of another
  /// heuristic, version or set of features.
  HeuristicLog(std::string path, const Heuristic& heuristic, std::string machine = "",
               std::string target = "", std::uint64_t seed = 0);
  ~HeuristicLog();
  HeuristicLog(const HeuristicLog&) = delete;
  HeuristicLog& operator=(const HeuristicLog&) = delete;

  /// Adds a problem with the seconds of its choices. The fallback must be among them.
  void add(const std::string& problem, const NamedFeatures& features,
           const std::vector<std::pair<ParameterSet, double>>& choices, double noise = 0);
  /// The same by ids of choices. `of_constants` are HeuristicProblem::of_constants.
  void add(const std::string& problem, const NamedFeatures& features,
           const std::vector<std::pair<std::string, double>>& ids, double noise = 0,
           const std::map<std::string, double>& of_constants = {});
  bool has(const std::string& problem) const;
  std::size_t size() const;  ///< number of problems, those of earlier runs included

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace heddle
