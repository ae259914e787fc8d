// What the nodes of a network cost, by the estimates that its plan of fusion was made with.
#pragma once

#include <vector>

#include "network/cut/cut_network.h"
#include "network/fusion/fusion_cost.h"

namespace heddle::network {

/// The seconds of each node, 0 for copies into states.
std::vector<double> seconds_of_nodes(const CutNetwork& network, const Target& target);

/// The cost of the plan, and of what the network computes a second time. Its lists are those of the
/// plan.
PlanCost cost_of(const CutNetwork& network, const Target& target);

}  // namespace heddle::network
