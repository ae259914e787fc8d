// The regions of a sum of trees: one tree that people can read, and what held-out problems say about
// the sum in each of its leaves.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heddle/heuristics/dataset.h"
#include "heddle/heuristics/train_tree.h"
#include "heddle/heuristics/trained_tree.h"
#include "heuristics/train/regret_table.h"
#include "heuristics/train/select_terms.h"
#include "support/tree/grow.h"

namespace heddle::learning {

/// Rounds a figure to six digits after the point, so that files do not depend on the rounding of
/// the mathematical library.
double rounded(double figure);

/// A region: a node of a tree, with the answers of the sum for its problems.
struct Region {
  GrownNode node;
  bool answers = false;  ///< the sum answers a choice for some of its problems
};

/// The tree that comes nearest to the sum with one answer for each leaf: it is grown on what the sum
/// predicts. Node 0 is the root.
std::vector<Region> distil(const HeuristicData& data, const RegretTable& regrets,
                           std::span<const SumTerm> sum, std::span<const std::int32_t> known,
                           const TrainOptions& options);

/// The leaf of each region that is one, in the order of the nodes. `first` and `count` are not
/// filled in.
std::vector<TreeLeaf> judge_regions(const std::vector<Region>& regions, const RegretTable& regrets,
                                    const SumSize& size, const TrainOptions& options);

}  // namespace heddle::learning
