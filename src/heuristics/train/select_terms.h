// The number of trees of a sum, selected by cross-validation over problems.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heddle/heuristics/dataset.h"
#include "heddle/heuristics/train_tree.h"
#include "heuristics/train/regret_table.h"

namespace heddle::learning {

struct SumSize {
  int terms = 0;
  /// For each problem of the data, the column that was answered by the sum of so many trees that was
  /// grown without the fold of the problem. -1: the problem does not count.
  std::vector<int> held_out;
  /// Whether the answers are shown to be better than the rule: the mean difference of regret, problem
  /// by problem, is more than its standard error. Otherwise the sum only ranks.
  bool answers = false;
};

/// The number of trees, 1 at least, whose held-out answers have the least mean regret.
SumSize select_terms(const HeuristicData& data, const RegretTable& regrets,
                     std::span<const std::int32_t> known, const TrainOptions& options);

}  // namespace heddle::learning
