// The constants of rules (heddle/target/rule_constants.h) that a machine was found to have, and what they decide.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/schedule/choice.h"
#include "heddle/schedule/options.h"
#include "heddle/target/rule_constants.h"
#include "heddle/target/target.h"

namespace heddle {

/// The constants of the file <kind>-<chip>.constants, which is found as trees are (heddle/records/tophub.h). Null where
/// there is none, where it cannot be read (logged, HEDDLE_LOG=heuristics), and with HEDDLE_HEURISTICS=off.
std::shared_ptr<const RuleConstants> measured_constants(const Target& target);
/// Reads such a file for a kind of target. Throws a User error for an invalid one, a Runtime error where it cannot be
/// read.
RuleConstants read_constants(const std::string& path, const std::string& kind);

/// A source without answers: the rules alone, which judge by these constants.
std::shared_ptr<const ChoiceSource> rules_with(const RuleConstants& constants);

/// A constant that decides: another value within its range makes another static choice.
struct DecidingConstant {
  const ConstantInfo* info = nullptr;
  double value = 0;
  bool below = false, above = false;  ///< whether the least, the largest value changes the choice
};

/// The constants that decide the static choice of the rules for a graph, in the order of their declaration. It makes
/// the choice with each constant at the ends of its range.
std::vector<DecidingConstant> deciding_constants(const ComputeDag& dag, const Target& target,
                                                 const AutoSchedulerOptions& options);

}  // namespace heddle
