// The depth of a tree and the least size of its leaves, selected by cross-validation over problems.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heddle/heuristics/dataset.h"
#include "heddle/heuristics/train_tree.h"
#include "heuristics/train/regret_table.h"

namespace heddle::learning {

struct TreeSize {
  int depth = 0, leaf_size = 1;
  /// For each problem of the data, the column that was answered by the tree of this size that was
  /// grown without the fold of the problem. -1: the problem has unknown features.
  std::vector<int> held_out;
};

/// The smallest size whose held-out regret is not shown to be worse than the least one: the mean
/// difference of the two, problem by problem, is within one standard error of it (Breiman et al.
/// 1984, "Classification and Regression Trees", section 3.4.3, with one standard error of unpaired
/// costs).
TreeSize select_size(const HeuristicData& data, const RegretTable& regrets,
                     std::span<const std::int32_t> known, const TrainOptions& options);

}  // namespace heddle::learning
