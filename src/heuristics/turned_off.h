// Variables of the environment that name heuristics.
//
//   HEDDLE_HEURISTICS=-reduction,-location     trees answer for all but these
//   HEDDLE_HEURISTICS=contraction,alternative  for these alone
//   HEDDLE_HEURISTICS=off                      for none, and rules judge by the default constants
//   HEDDLE_COLLECT=contraction,alternative     problems of these are logged
#pragma once

#include <set>
#include <string>

namespace heddle::learning {

/// Throws a User error where a variable names a heuristic that there is not. A source of choices asks before templates
/// are written, where errors of answers are taken for refusals.
void check_heuristics_variables();

/// Why HEDDLE_HEURISTICS lets no tree answer for a heuristic; empty where it does. Throws the same.
std::string why_turned_off(const std::string& heuristic);

/// Whether HEDDLE_HEURISTICS is "off".
bool all_turned_off();

/// The heuristics that HEDDLE_COLLECT names. Throws the same.
std::set<std::string> collected_heuristics();

}  // namespace heddle::learning
