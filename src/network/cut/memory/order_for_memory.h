// An order of the nodes of a network in which few bytes lie between them. The order in which a
// training step is declared computes the gradients of all activations before it updates a weight.
#pragma once

#include <set>
#include <vector>

#include "network/cut/memory/buffer_graph.h"

namespace heddle::network {

/// The positions of the nodes in that order. `before` are the nodes that each one waits for. The
/// order is found by list scheduling: of the nodes that can run, the next is the one after which,
/// and after what it alone held up, most bytes are free. Where that saves little, it is the order
/// in which the nodes were added.
std::vector<size_t> order_for_memory(const BufferGraph& graph,
                                     const std::vector<std::set<size_t>>& before);

}  // namespace heddle::network
