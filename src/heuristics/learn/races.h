// The races of a heuristic's problems, as calibration needs them.
#pragma once

#include <functional>
#include <vector>

#include "heddle/heuristics/heuristic.h"
#include "heuristics/learn/calibrate.h"

namespace heddle::learning {

/// Where the problems of a log come from: those of the caller's, then those that the seed draws.
struct RaceSource {
  const Heuristic& heuristic;
  const Target& target;
  std::uint64_t seed = 1;
  std::vector<DrawnProblem> first = {};
  std::function<bool()> expired = {};
};

/// The problems of `data` that are found again by their ids, with the schedules that their choices make. Those whose
/// times are too uncertain, that are not found, and whose heuristics are measured by programs are left out.
std::vector<CalibrationRace> races_of(const HeuristicData& data, const RaceSource& source);

/// `data` with the times of the rule as it is with these constants, so that trees learn what is left. Problems of which
/// that time is not known are left out, those without a race only where constants moved: a log may be of an older rule.
HeuristicData with_rule_of(const HeuristicData& data, const std::vector<CalibrationRace>& races,
                           const RuleConstants& constants);

}  // namespace heddle::learning
