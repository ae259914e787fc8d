// Nodes of a network that can run at the same time.
#pragma once

#include <vector>

#include "heddle/network/network.h"
#include "heddle/support/function_ref.h"
#include "network/cut/memory/moved_nodes.h"

namespace heddle::network {

/// The nodes `begin` to `end`, as positions, in lists that can run one after the other. Those of a list are
/// ready at the same time, and `fit` says of their tasks that they run together; it is asked of growing lists.
/// A node moves before others where `memory` lets it.
std::vector<std::vector<int>> independent_nodes(
    const std::vector<NetworkNode>& nodes, size_t begin, size_t end,
    const std::vector<TensorPlace>& places, const std::vector<StatePlace>& states,
    MovedNodes& memory, FunctionRef<bool(const std::vector<int>& tasks)> fit);

}  // namespace heddle::network
