// Makes a plan of fusion one that the templates of its nodes obey.
#pragma once

#include <vector>

#include "heddle/target/target.h"
#include "network/fusion/extract.h"
#include "network/fusion/fusion_plan.h"

namespace heddle::network {

/// Stores what the templates of the nodes would store within them, so that no later planning decides
/// otherwise than the plan. Returns the nodes.
std::vector<ExtractedNode> settle(FusionPlan& plan, const Target& target);

}  // namespace heddle::network
