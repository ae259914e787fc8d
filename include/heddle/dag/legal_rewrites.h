// Every rewrite of a graph that is legal, whatever is expected of it: for tests of the rules.
#pragma once

#include <string>
#include <vector>

#include "heddle/dag/alternatives.h"

namespace heddle {

/// The names of the rewrites of single stages that rules allow, with the parameters that suit
/// `target`. Estimates and policies are not asked.
std::vector<std::string> legal_rewrites(const ComputeDag& dag, const Target& target);

}  // namespace heddle
