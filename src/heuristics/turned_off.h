// HEDDLE_HEURISTICS: which heuristics may answer in place of their rules.
//
//   -reduction,-location     all but these
//   contraction,alternative  these alone
//   off                      none
#pragma once

#include <string>

namespace heddle::learning {

/// Why the variable lets no tree answer for a heuristic; empty where it does. A value that names a
/// heuristic that there is not turns all off, because a schedule is no place for an error.
std::string why_turned_off(const std::string& heuristic);

}  // namespace heddle::learning
