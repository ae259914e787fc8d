// Grows a tree: from the root on, each node takes the split of least regret.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heddle/heuristics/dataset.h"
#include "heuristics/train/regret_table.h"

namespace heddle {

/// A question. `feature` is -1 where no split lowers the regret.
struct Split {
  std::int32_t feature = -1;
  double at_most = 0;
  std::uint64_t one_of = 0;
  double cost = 0;  ///< cost of both sides

  bool says_yes(const HeuristicData& data, const HeuristicProblem& problem) const;
};

/// A node of a growing tree. Each node knows its answer, so that a tree can be cut at any depth.
struct GrownNode {
  Split split;
  std::int32_t yes = -1, no = -1;      ///< nodes that come later; -1: a leaf
  std::vector<std::int32_t> problems;  ///< in ascending order
  std::vector<int> ranking;            ///< columns of the regret table, best first
  bool is_leaf() const { return yes < 0; }
};

struct GrowOptions {
  int depth = 8, leaf_size = 4, ranked = 4;
};

/// The tree over these problems, whose features are all known. Node 0 is the root.
std::vector<GrownNode> grow_tree(const HeuristicData& data, const RegretTable& regrets,
                                 std::vector<std::int32_t> problems, const GrowOptions& options);

/// The split of least cost that leaves at least `leaf_size` problems on either side. Among equal
/// splits, the first feature and the least threshold win.
Split best_split(const HeuristicData& data, const RegretTable& regrets,
                 std::span<const std::int32_t> problems, int leaf_size);

/// The node that a problem reaches in the tree cut at `depth`.
const GrownNode& node_of(const HeuristicData& data, const std::vector<GrownNode>& tree,
                         const HeuristicProblem& problem, int depth);

/// The tree cut at `depth`, without splits whose sides give the same first choice.
std::vector<GrownNode> pruned(const std::vector<GrownNode>& tree, int depth);

}  // namespace heddle
