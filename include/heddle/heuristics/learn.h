// learn: what `heddle learn` does. It measures the choices of the heuristics of a machine on problems, fits the
// constants of rules to them, trains a tree for each heuristic on what is left, and installs what is proven to gain.
//
//   LearnReport r = learn();  // twenty minutes; later commands on this machine ask these trees
//
// Measurements are kept in logs beside the trees. A second run goes on from them, also after the first was killed.
// A tree is installed where trees that were trained on four fifths of the problems were faster than the rule on the
// other fifth, by more than chance. Otherwise the one of an earlier run is removed, and the rule decides.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "heddle/heuristics/certificate.h"
#include "heddle/heuristics/collect.h"
#include "heddle/support/json.h"

namespace heddle {

/// What came of a heuristic.
enum class LessonEnd : uint8_t {
  TooFew,     ///< too few problems to learn from
  NotProven,  ///< trees were not proven to be faster than the rule on problems that they had not seen
  Taken,      ///< a tree is installed
  NoTime,     ///< the time for the constants was over, and what was learned before stays
};
const char* to_string(LessonEnd end);

/// What was learned about one heuristic. Ratios are geometric means of times over problems that the
/// answering trees had not seen; 0: there were too few.
struct Lesson {
  std::string heuristic;
  int collected = 0;          ///< problems of this run
  int problems = 0;           ///< all that are known, those of earlier runs included
  int noisy = 0;              ///< of these, too uncertain to learn from
  int repeated = 0;           ///< of this run, measured again because they were too uncertain
  double waited_seconds = 0;  ///< before that, until others left the cores alone
  double rule_over_best = 0, tree_over_best = 0, tree_over_rule = 0;
  double unsure = 0;  ///< share of problems for which trees had no answer
  LessonEnd end = LessonEnd::TooFew;
  std::string file = {};                   ///< of the tree
  std::vector<std::string> failures = {};  ///< problems that could not be measured, with the reason
};

/// A constant of the rules (heddle/target/rule_constants.h) that moved from its default.
struct MovedConstant {
  std::string name, unit;
  double from = 0, to = 0;
  int problems = 0;  ///< on which values that were chosen without them were judged
  int changed = 0;   ///< of these, problems for which the rule chooses otherwise now
  double gain = 1;   ///< geometric mean of the old time over the new one, on problems held out
  double error = 0;  ///< standard error of its logarithm
};

/// The results of a run.
struct LearnReport {
  std::vector<Lesson> lessons;  ///< in the order of names
  std::vector<MovedConstant> constants = {};
  CertificateCalibration certificates = {};  ///< what choices are worth, as the folder has it now
  std::string folder;
  std::vector<std::string> set_aside = {};  ///< a sentence for each log that counts no more
  bool cancelled = false;
  Json to_json() const;
  std::string to_text() const;  ///< a table, and a line on what remains to be done
};

/// The state of a run, for LearnOptions::progress.
struct LearnProgress {
  std::string heuristic;
  CollectProgress collect;
  double left_seconds = 0;  ///< of the whole run
};

/// Options of learn().
struct LearnOptions {
  std::chrono::duration<double> budget{1200.0};
  Target target = Target::host();
  /// Names of heuristics; empty: all of the target that draw problems.
  std::vector<std::string> heuristics = {};
  /// Problems of the caller's, such as the nodes of networks, which are measured first.
  std::vector<DrawnProblem> first = {};
  /// Measurements beside those of the logs, such as those of tuning.
  std::function<std::vector<HeuristicData>(const Heuristic&)> known = {};
  std::string folder =
      {};                  ///< of trees and logs; empty: learned_folder() (heddle/records/tophub.h)
  std::uint64_t seed = 1;  ///< of the problems that are drawn
  /// False: conclude from the logs in the folder, which may be of a machine that is not here.
  bool measure = true;
  std::string date = {};         ///< written to the trees
  Measurer* measurer = nullptr;  ///< must outlive the call; null: learn makes one
  TuneClock* clock = nullptr;    ///< cancellation; its budget replaces `budget`
  std::function<void(const LearnProgress&)> progress = {};  ///< called from the calling thread
};

/// Learns. Throws a User error for a heuristic that draws no problems or is of another kind of target, and where there
/// is no folder; a Runtime error where it cannot be written.
LearnReport learn(const LearnOptions& options = {});

/// What the folder has for the target's chip, without measuring: one lesson for each tree, as trained.
LearnReport learned(const Target& target, const std::string& folder = {});

/// Removes trees and logs of the target's chip from the folder. Returns the names of the removed files.
std::vector<std::string> forget_learned(const Target& target, const std::string& folder = {});

}  // namespace heddle
