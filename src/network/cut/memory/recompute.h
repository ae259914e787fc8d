// Rematerialisation: which results of nodes are computed again for later readers, so that the buffers
// between nodes stay below a limit.
//
//   a = f(x);  b = g(a);  ...  c = h(b, a)       a lives through all that is between
//   a = f(x);  b = g(a);  ...  a' = f(x);  c = h(b, a')
//
// Chen et al. 2016 (arXiv:1604.06174) drop what lies between checkpoints. Here each result is one
// decision, taken greedily: where most bytes live, the result leaves that frees most for the time that
// computing it again takes. A result that was left out may need another one that was; then both
// are computed again.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "network/cut/memory/buffer_graph.h"

namespace heddle::network {

/// What may be done with a node.
struct RepeatedNode {
  double seconds = 0;  ///< to run it again
  bool allowed = false;
  /// The first node that overwrites an argument that this one reads: it may not run again behind it.
  size_t until = std::numeric_limits<size_t>::max();
};

/// A step of a call: a node, or its second run.
struct RepeatableStep {
  size_t node = 0;
  bool again = false;
  /// For each buffer that the node reads, whether it is the result of a second run.
  std::vector<char> reads_again = {};
};

struct Recomputation {
  std::vector<RepeatableStep>
      steps;           ///< in the order of the nodes, second runs before their readers
  double seconds = 0;  ///< of second runs
  int64_t bytes = 0;   ///< of the arena (plan_memory)
  bool fits = false;   ///< within the limit
};

/// Nodes run in the order in which they were added to `graph`. `kept` are buffers that are not computed
/// again, `repeated` those that are in any case. Where nothing fits, the result is the smallest one found; it fits where that is allowed.
Recomputation recompute(const BufferGraph& graph, const std::vector<RepeatedNode>& nodes,
                        int64_t limit, const std::vector<char>& kept,
                        const std::vector<char>& repeated);

}  // namespace heddle::network
