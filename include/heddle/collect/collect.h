// collect: measures the choices of a heuristic on problems that it draws, for training.
//
//   CollectReport r = collect(heuristic_of("contraction"), {.budget = 600s, .log = "data.jsonl"});
//   TrainedTree tree = train_tree(read_heuristic_log("data.jsonl"));
//
// The problems are a function of the seed: a second run with the same seed and log goes on where
// the first one ended, and skips those that are done. Each problem is one line of the log, written
// at once when all its choices are measured, so that a killed process loses the one at hand.
// Several processes with different seeds may fill one log or several (heddle/heuristics/dataset.h:
// merge).
//
// All choices of a problem are timed beside the fallback, and the leaders raced against each other:
// a machine drifts by tens of per cent within minutes, and the ratios of times do not.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "heddle/heuristics/heuristic.h"
#include "heddle/measure/measure.h"
#include "heddle/schedule/template.h"

namespace heddle {

/// The schedules that the candidates of a heuristic make of a problem.
struct BuiltChoices {
  NamedFeatures features;                ///< as the template gives them
  Choice of_rule = Choice();             ///< what the rule chose
  Template rule;                         ///< the fallback's
  std::vector<Schedule> schedules = {};  ///< each once; the first is the fallback's
  /// Ids of choices, and which schedule each makes: several may make the same.
  std::vector<std::pair<std::string, std::size_t>> choices = {};
  std::size_t question = 0;   ///< the stage that was asked about, in the order of the questions
  std::string fallback = {};  ///< id
  std::vector<std::string> rejections = {};  ///< "{...}: the register tile must fit ..."
};

/// Why a problem is not one of the heuristic, or what its choices make of it.
struct BuildOutcome {
  std::string why_not = {};
  std::vector<BuiltChoices> built = {};  ///< one, or none where why_not says why
};
/// `question`: about which of the stages that the heuristic is asked about, modulo their number.
BuildOutcome build_choices(const Heuristic& heuristic, const std::vector<Tensor>& outputs,
                           const Target& target, std::size_t question = 0);

/// The source that answers one heuristic with one choice, for problems with these features (none:
/// for all), and no other.
std::shared_ptr<const ChoiceSource> planted_choice(std::string heuristic, Choice choice,
                                                   NamedFeatures features = {});

struct CollectProgress {
  std::string problem;  ///< at hand; empty at the end
  int collected = 0, earlier = 0, skipped = 0;
  double elapsed_seconds = 0, left_seconds = 0;
};

struct CollectOptions {
  std::chrono::duration<double> budget{600.0};
  int problems = 0;  ///< collected by this run; 0: until the budget ends
  std::string log;
  Target target = Target::host();
  std::uint64_t seed = 1;
  std::string machine = {};      ///< a name for the log; empty: the target's chip
  Measurer* measurer = nullptr;  ///< must outlive the call; null: one of its own
  TuneClock* clock = nullptr;    ///< cancellation; its budget replaces `budget`
  std::function<void(const CollectProgress&)> progress = {};  ///< from the calling thread
};

struct CollectReport {
  int collected = 0, earlier = 0;          ///< problems of this run; those that the log had
  int skipped = 0;                         ///< not of this heuristic, or with one choice only
  int failed = 0;                          ///< the fallback could not be measured
  std::string ended;                       ///< "budget", "problems", "cancelled"
  std::vector<std::string> problems = {};  ///< why problems failed
};

/// Throws a User error for a heuristic that draws no problems or is for another kind of target, and
/// for a log of another heuristic, version, target or seed.
CollectReport collect(const Heuristic& heuristic, const CollectOptions& options);

/// The log of a heuristic, written a line a problem. Also for choices of a program's own: what it
/// measures while it runs is training data.
class HeuristicLog {
 public:
  /// Opens, or creates with a header. A log of another heuristic, version or features is a User
  /// error.
  HeuristicLog(std::string path, const Heuristic& heuristic, std::string machine = "",
               std::string target = "", std::uint64_t seed = 0);
  ~HeuristicLog();
  HeuristicLog(const HeuristicLog&) = delete;
  HeuristicLog& operator=(const HeuristicLog&) = delete;

  /// A problem with the seconds of its choices. The fallback must be among them.
  void add(const std::string& problem, const NamedFeatures& features,
           const std::vector<std::pair<ParameterSet, double>>& choices, double noise = 0);
  void add(const std::string& problem, const NamedFeatures& features,
           const std::vector<std::pair<std::string, double>>& ids, double noise = 0);
  bool has(const std::string& problem) const;
  std::size_t size() const;  ///< problems, with those of earlier runs

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace heddle
