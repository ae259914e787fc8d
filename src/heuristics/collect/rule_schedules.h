// What rules make of a declaration with constants of one's choice.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "heddle/heuristics/collect.h"
#include "heddle/schedule/template.h"
#include "heddle/target/rule_constants.h"

namespace heddle::learning {

/// The static choice of the rules, which judge by these constants, for the declaration of `rule`; with `of_graphs` for
/// the graph that they choose, else for the graph as declared. Throws a User error where such rules make none.
Schedule rule_schedule(bool of_graphs, const Template& rule, const RuleConstants& constants);

/// The key of a schedule in HeuristicProblem::of_constants.
std::string schedule_key(const Schedule& schedule);

/// The different schedules that the rules make when one constant has another value of its range, without that of the
/// usual constants. A constant moves several knobs of several stages at once, so these are no choices of a heuristic,
/// and without their times nothing is known of a constant.
std::vector<Schedule> schedules_of_constants(bool of_graphs, const Template& rule);

/// Adds these for the rule of `built` to its schedules where they are new, and returns the indices of all of them.
std::vector<std::size_t> add_schedules_of_constants(bool of_graphs, BuiltChoices& built);

}  // namespace heddle::learning
