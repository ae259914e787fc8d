// Trees of heuristics while they are trained: each node ranks the choices.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/heuristics/dataset.h"
#include "heuristics/train/regret_table.h"
#include "support/tree/grow.h"

namespace heddle::learning {

/// Each node knows its answer, so that a tree can be cut at any depth.
struct RankedNode : GrownNode {
  std::vector<int> ranking;  ///< columns of the regret table, best first
};

struct TrainRules {
  int depth = 8, leaf_size = 4, ranked = 4;
};

/// The tree over these problems, whose features are all known. Node 0 is the root.
std::vector<RankedNode> grow_ranked_tree(const HeuristicData& data, const RegretTable& regrets,
                                         std::vector<std::int32_t> problems,
                                         const TrainRules& rules);

/// The node that a problem reaches in the tree cut at `depth`.
const RankedNode& node_of(const std::vector<RankedNode>& tree, const HeuristicProblem& problem,
                          int depth);

/// The tree cut at `depth`, without questions whose sides give the same first choice.
std::vector<RankedNode> pruned(const std::vector<RankedNode>& tree, int depth);

}  // namespace heddle::learning
