#include "network/cut/cut_network.h"

#include <algorithm>
#include <string>
#include <utility>

#include "network/cut/family_graph.h"
#include "network/cut/plan_fusion.h"
#include "network/passes/graph_pass.h"

namespace heddle::network {
namespace {

CutNetwork over_sizes(const ComputeDag& declared, const Target& target, const PassOptions& passes) {
  std::vector<PassApplication> changes;
  FamilyGraph graph = family_graph(declared, target, passes, changes);
  const ComputeDag decide(at_sizes(graph.dag.outputs(), graph.usual).outputs);
  ChoiceList usual_ones{PassOptions()};
  FusionPlan plan =
      plan_fusion(decide, plan_groups(decide, &target, Chains::Expected), target, {}, usual_ones);
  (void)settle(plan, target);
  std::vector<ExtractedNode> nodes = extract_nodes(graph.dag, plan);
  return {ChoiceList(passes),   std::move(changes), std::move(graph.usual),
          std::move(graph.dag), std::move(plan),    {},
          std::move(nodes)};
}

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

CutNetwork cut_network(const ComputeDag& declared, const Target& target,
                       const PassOptions& passes) {
  if (!sizes_of(declared.outputs()).empty()) return over_sizes(declared, target, passes);
  ChoiceList choices(passes);
  std::vector<PassApplication> changes;
  ComputeDag dag = run_passes(declared, target, passes, choices, changes);
  InPlacePlan in_place;
  if (passes.concat_in_place) in_place = plan_concats(dag);
  if (!in_place.wholes.empty()) {
    changes.push_back({"concat_in_place", "the parts of " + std::to_string(in_place.wholes.size()) +
                                              " concats are written in place"});
  }
  FusionPlan plan =
      plan_fusion(dag, plan_groups(dag, &target, Chains::Expected), target, in_place, choices);
  std::vector<ExtractedNode> nodes = settle(plan, target);
  return {std::move(choices),         std::move(changes), {}, std::move(dag), std::move(plan),
          std::move(in_place.places), std::move(nodes)};
}

std::vector<uint64_t> node_hashes(const CutNetwork& network) {
  std::vector<uint64_t> hashes;
  for (const ExtractedNode& node : network.nodes) hashes.push_back(node.dag->structural_hash());
  return hashes;
}

}  // namespace heddle::network
