// Random trees and problems for them.
#pragma once

#include <vector>

#include "heddle/heuristics/trained_tree.h"
#include "heddle/support/rng.h"

namespace heddle {

TrainedTree random_tree(Rng& rng);
/// Mostly one that the tree answers for.
std::vector<double> random_problem(const TrainedTree& tree, Rng& rng);

}  // namespace heddle
