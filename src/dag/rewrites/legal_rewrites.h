// Every legal rewrite of a graph, whatever its expected gain is, for tests of the rules.
#pragma once

#include <string>
#include <vector>

#include "heddle/dag/alternatives.h"

namespace heddle {

/// The names of the rewrites of single stages that rules allow, with the parameters that suit
/// `target`. Estimates and policies are ignored.
std::vector<std::string> legal_rewrites(const ComputeDag& dag, const Target& target);

}  // namespace heddle
