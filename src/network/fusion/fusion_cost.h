// What a plan of fusion costs.
#pragma once

#include <utility>
#include <vector>

#include "heddle/target/target.h"
#include "network/fusion/fusion_plan.h"

namespace heddle::network {

/// What the nodes of a network cost in a call.
struct PlanCost {
  double flops = 0;  ///< what several nodes compute counts for each
  double bytes = 0;  ///< that nodes read and write
  double nodes = 0;  ///< that are started
  /// For each node its arithmetic at the peak of the machine, with the selects and lookups that no
  /// vector takes, or its bytes at the bandwidth of the caches and memories where they lie, whichever takes longer,
  /// and the time to start it (schedule/groups/machine_rates.h).
  double seconds = 0;
  std::vector<double> of_nodes =
      {};  ///< the seconds of each node with all its runs, as CutNetwork::nodes
  /// For each node the stage that ends it, and the number of its stages.
  std::vector<std::pair<int, int>> which = {};
};

/// The cost of a plan. The arithmetic includes rows of images that two blocks compute. `runs` says for each
/// stage how often a call runs the node that ends there; empty: each runs once.
PlanCost cost_of(const FusionPlan& plan, const Target& target,
                 const std::vector<double>& runs = {});

}  // namespace heddle::network
