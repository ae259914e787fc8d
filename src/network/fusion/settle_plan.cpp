#include "network/fusion/settle_plan.h"

#include <algorithm>

#include "heddle/schedule/stage_group.h"

namespace heddle::network {
namespace {

/// The stages of a node, beside its end, for which its template opens groups of their own.
std::vector<int> stored_inside(const ExtractedNode& node, const Target& target) {
  const ComputeDag& dag = *node.dag;
  std::vector<int> found;
  for (const StageGroup& g : plan_groups(dag, &target)) {
    const Operation* op = &dag.stage(g.output_stage);
    if (op == node.task_outputs[0].op() || dag.info(g.output_stage).precomputable) continue;
    const auto at = std::find(node.operations.begin(), node.operations.end(), op);
    found.push_back(node.stages[static_cast<size_t>(at - node.operations.begin())]);
  }
  return found;
}

}  // namespace

std::vector<ExtractedNode> settle(FusionPlan& plan, const Target& target) {
  for (bool first = true;; first = false) {
    std::vector<ExtractedNode> nodes = extract_nodes(plan.dag(), plan);
    bool settled = true;
    for (const ExtractedNode& node : nodes) {
      for (const int s : stored_inside(node, target)) {
        settled = false;
        plan.set(s, Place::Stored);
        if (first && plan.may_run_inside(s)) plan.extend(s);
      }
    }
    if (settled) return nodes;
  }
}

}  // namespace heddle::network
