// What each choice of a network would cost the other way.
#pragma once

#include <optional>
#include <vector>

#include "heddle/target/target.h"
#include "network/cut/cut_network.h"
#include "network/fusion/fusion_cost.h"

namespace heddle::network {

/// What a network costs if this choice alone is flipped. For store@ and fuse@ it is about an edge of
/// the plan, or several that are alike, between a stage and its readers.
struct ChoiceCost {
  NetworkChoice choice;
  /// Nothing where its buffers do not fit into PassOptions::memory then.
  std::optional<PlanCost> flipped;
};

/// The choices of a network that cut_network made of `declared` with these passes and updates, in
/// their order.
std::vector<ChoiceCost> choice_costs(const CutNetwork& network, const ComputeDag& declared,
                                     const Target& target, const PassOptions& passes,
                                     const Updates& updates = {});

}  // namespace heddle::network
