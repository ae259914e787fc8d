// Cuts a network into nodes, each with a declaration of its own: a group of plan_groups, and the
// element-wise stages that follow it.
#pragma once

#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/target/target.h"
#include "network/passes/choice_list.h"
#include "network/passes/concat_in_place.h"

namespace heddle::network {

/// Stages that run together. `inputs` and `outputs` are tensors of the network; the declaration
/// that computes `outputs` from `inputs` alone has other tensors, in the same order.
struct ExtractedNode {
  std::vector<Tensor> inputs, outputs;
  std::vector<Tensor> task_inputs, task_outputs;
  std::vector<int> stages;  ///< of the network, computed here; for names
};

/// The nodes that the outputs need, in an order in which they can run.
///
///   network: a -> C -> relu -> D, where C and D are reductions
///     node 0: relu'(C'(a'))       inputs {a}, outputs {relu}
///     node 1: D'(r')              inputs {relu}, outputs {D}; r' is a placeholder like relu
///
/// A stage that depends on constant placeholders alone is computed in every node that reads it,
/// from those placeholders. It is prepared once there, whereas a node of its own would run at every
/// call.
///
/// `decide` is the same graph with constant extents, at which the cuts are made. It is `dag` itself
/// unless that is over dimensions. `in_place` lists the concats that need no node, because their
/// parts are written into the memory of the whole. `choices` is asked which stages end nodes where
/// that is not certain to be best:
///
///   s -> P              a stage that a product P reads, computed in P's node:   store@s
///   P1 -> .. -> P2      products whose rows go through the cache together:      store@P1
///   P1 -> s -> sum <- P2   a sum of two products, computed in the node of P1:   store@s
///   P1 -> .. -> P2      a pointwise and a depthwise convolution, whose image
///                       stays in the cache:                                     fuse@P1
///   node of s -> P      a node without sums that only P's node reads:           fuse@s
std::vector<ExtractedNode> extract_nodes(const ComputeDag& dag, const ComputeDag& decide,
                                         const Target& target, const InPlacePlan& in_place,
                                         ChoiceList& choices);

}  // namespace heddle::network
