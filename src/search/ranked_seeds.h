// The first configs of a search, from the rankings of the trees (heddle/heuristics/tree_choices.h).
#pragma once

#include <vector>

#include "heddle/schedule/template.h"

namespace heddle::search {

/// The configs of the branch of the static choice that the best choices of the trees make, best
/// first. Empty where no tree is consulted, or none knows the problem.
std::vector<Config> ranked_seeds(const Template& t);

/// The branches of a template of alternatives that a search should try early: all, or those that a
/// tree of graphs ranks best, with the declared graph and that of the static choice.
std::vector<int> early_branches(const Template& t);

}  // namespace heddle::search
