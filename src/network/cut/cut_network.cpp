#include "network/cut/cut_network.h"

#include <algorithm>
#include <string>
#include <utility>

#include "network/cut/family_graph.h"
#include "network/fusion/plan_fusion.h"
#include "network/fusion/settle_plan.h"
#include "network/passes/graph_pass.h"

namespace heddle::network {
namespace {

CutNetwork over_sizes(const ComputeDag& declared, const Target& target, const PassOptions& passes) {
  std::vector<PassApplication> changes;
  FamilyGraph graph = family_graph(declared, target, passes, changes);
  const ComputeDag decide(at_sizes(graph.dag.outputs(), graph.usual).outputs);
  ChoiceList usual_ones{PassOptions()};
  const std::vector<StageGroup> groups = plan_groups(decide, &target, Chains::Expected);
  PlanAnswers searched = search_plan(decide, groups, target, {});
  usual_ones.expect(searched);
  FusionPlan plan = plan_fusion(decide, groups, target, {}, usual_ones);
  (void)settle(plan, target);
  std::vector<ExtractedNode> nodes = extract_nodes(graph.dag, plan);
  return {ChoiceList(passes),
          std::move(changes),
          std::move(graph.usual),
          std::move(graph.dag),
          std::move(plan),
          std::move(searched),
          {},
          std::move(nodes)};
}

}  // namespace

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
  const std::vector<StageGroup> groups = plan_groups(dag, &target, Chains::Expected);
  PlanAnswers searched = search_plan(dag, groups, target, in_place);
  choices.expect(searched);
  FusionPlan plan = plan_fusion(dag, groups, target, in_place, choices);
  std::vector<ExtractedNode> nodes = settle(plan, target);
  return {std::move(choices),
          std::move(changes),
          {},
          std::move(dag),
          std::move(plan),
          std::move(searched),
          std::move(in_place.places),
          std::move(nodes)};
}

std::vector<uint64_t> node_hashes(const CutNetwork& network) {
  std::vector<uint64_t> hashes;
  for (const ExtractedNode& node : network.nodes) hashes.push_back(node.dag->structural_hash());
  return hashes;
}

}  // namespace heddle::network
