// Calibration: fits the constants of rules to races. A race holds the times of many schedules of a problem, so what the
// rule would take with other constants is looked up, and nothing is measured.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "heddle/heuristics/learn.h"
#include "heddle/target/rule_constants.h"

namespace heddle::learning {

/// A measured problem whose rule can be asked with other constants.
struct CalibrationRace {
  std::string id;
  /// What the rule takes with these constants: a key of `seconds`, or another text.
  std::function<std::string(const RuleConstants&)> choose;
  std::map<std::string, double> seconds;
  double noise = 0;          ///< differences below it do not count
  double least_seconds = 0;  ///< that the machine allows; 0: not known
};

struct CalibrateOptions {
  int folds = 5;
  std::uint64_t seed = 1;
  double least_noise = 0.02, most_slowdown = 8;  ///< as in TrainOptions
  double confidence = 0.8;  ///< share of the constants that move of which it is no chance
  double pull = 0.004;      ///< loss of a move over the whole range, so that values hold
  int fewest_changed = 4;   ///< problems that a move must change, with known times
  /// Values that races of other machines proved. Nothing is searched for them, so they are judged among themselves alone, on
  /// all races: less evidence suffices than for one of many values of many constants. Those that are proven here, too, are
  /// where the search of other values begins.
  std::vector<std::pair<const ConstantInfo*, double>> proven_elsewhere = {};
  std::function<bool()> expired = {};
};

struct Calibration {
  RuleConstants constants;
  std::vector<MovedConstant> moved;
  int sensitive = 0;     ///< constants that change the choice of some problem
  bool finished = true;  ///< false: the time was over, and more might have moved
  int known =
      0;  ///< of these, constants that could move, because enough of what they change was measured
};

/// Screens the constants of the kind: those of which no end of the range changes a choice are left alone, and of the
/// others the races that they decide count. Constants of one rule are asked together, and one by one where that changes a
/// choice; what seems proven is judged once more by all races that it decides. For these the value of least mean loss is
/// searched, one constant after the other; after each move the races that it decides are screened anew, because others may
/// decide them now. A constant moves where values that four fifths of the races choose are faster on the last fifth by more
/// than chance. Half of the problems that a move changes must have known times. Constants are judged together, so that of
/// those that move a share of `confidence` gains (Benjamini and Hochberg, "Controlling the false discovery rate", 1995).
Calibration calibrate(const std::vector<CalibrationRace>& races, std::string_view kind,
                      const CalibrateOptions& options);

}  // namespace heddle::learning
