// Decides which stages of a network are stored and which are computed in the nodes that read them.
#pragma once

#include <vector>

#include "heddle/schedule/stage_group.h"
#include "heddle/target/target.h"
#include "network/fusion/fusion_plan.h"
#include "network/passes/choice_list.h"
#include "network/passes/concat_in_place.h"

namespace heddle::network {

/// The plan for `dag`, of which `groups` are the groups that pay (plan_groups, Chains::Expected).
/// `in_place` lists the concats that need no node, because their parts are written into the memory
/// of the whole. plan_groups works from the outputs backwards and gives an element-wise stage to
/// its reader. Between kernels that is expensive: two readers compute it
/// twice, a sum of residuals grows with every layer, and equal layers are not recognised. A node
/// therefore goes on along the element-wise stages that follow it (FusionPlan::extend).
///
/// `choices` is asked which stages end nodes where that is not certain to be best:
///
///   s -> P              a stage that a product P reads, computed in P's node:   store@s
///   P1 -> .. -> P2      products whose rows go through the cache together:      store@P1
///   P1 -> s -> sum <- P2   a sum of two products, computed in the node of P1:   store@s
///   P1 -> .. -> P2      a pointwise and a depthwise convolution, whose image
///                       stays in the cache:                                     fuse@P1
///   node of s -> P      a node without sums that only P's node reads:           fuse@s
///   P -> .. -> sums     a matrix that several nodes compute and reduce:         fuse@P
///
/// `at_all_sizes`: the nodes have other sizes too, for which matrices are stored.
FusionPlan plan_fusion(const ComputeDag& dag, const std::vector<StageGroup>& groups,
                       const Target& target, const InPlacePlan& in_place, ChoiceList& choices,
                       bool at_all_sizes = false);

}  // namespace heddle::network
