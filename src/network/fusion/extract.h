// Cuts a network into nodes, each with a declaration of its own: a group of plan_groups, and the
// element-wise stages that follow it.
#pragma once

#include <optional>
#include <vector>

#include "heddle/dag/compute_dag.h"
#include "network/fusion/fusion_plan.h"

namespace heddle::network {

/// Stages that run together. `inputs` and `outputs` are tensors of the network; the declaration
/// that computes `outputs` from `inputs` alone has other tensors, in the same order.
struct ExtractedNode {
  std::vector<Tensor> inputs, outputs;
  std::vector<Tensor> task_inputs, task_outputs;
  std::optional<ComputeDag> dag;  ///< of `task_outputs`; always set
  std::vector<int> stages;        ///< of the network, computed here
  /// For each of `stages`, the operation of the node's declaration that computes it.
  std::vector<const Operation*> operations;
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
/// `plan` says which stages are stored. It may have been made for `dag` at other sizes.
std::vector<ExtractedNode> extract_nodes(const ComputeDag& dag, const FusionPlan& plan);

}  // namespace heddle::network
