// The order in which the nodes of a network run, and which of them run twice.
#pragma once

#include <vector>

#include "network/cut/cut_network.h"
#include "network/cut/updates.h"

namespace heddle::network {

/// Brings the nodes in an order in which few bytes lie between them (order_for_memory.h), and, where
/// `passes` ask for it, adds second runs of nodes (recompute.h). A User error where the limit cannot be
/// kept. `writes` are those for which order_by_writes found an order.
void arrange_nodes(CutNetwork& network, const std::vector<StateWrite>& writes, const Target& target,
                   const PassOptions& passes);

}  // namespace heddle::network
