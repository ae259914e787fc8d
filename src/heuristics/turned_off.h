// HEDDLE_HEURISTICS: which heuristics may answer in place of their rules.
//
//   -reduction,-location     all but these
//   contraction,alternative  these alone
//   off                      none
#pragma once

#include <string>

namespace heddle::learning {

/// Throws a User error where the value names a heuristic that there is not.
void check_heuristics_variable();

/// Why the variable lets no tree answer for a heuristic; empty where it does. Throws the same.
std::string why_turned_off(const std::string& heuristic);

}  // namespace heddle::learning
