// The verdicts of the leaves of a tree, from the answers for held-out problems.
#pragma once

#include <vector>

#include "heddle/heuristics/train_tree.h"
#include "heddle/support/decision_tree.h"
#include "heuristics/train/grow_tree.h"
#include "heuristics/train/regret_table.h"
#include "heuristics/train/select_size.h"

namespace heddle::learning {

/// Rounds a figure to six digits after the point, so that files do not depend on the rounding of
/// the mathematical library.
double rounded(double figure);

/// The leaf of each node of `tree` that is one, in the order of the nodes. `first` and `count` are
/// not filled in.
std::vector<TreeLeaf> judge_leaves(const std::vector<RankedNode>& tree, const RegretTable& regrets,
                                   const TreeSize& size, const TrainOptions& options);

}  // namespace heddle::learning
