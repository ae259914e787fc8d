#include "network/cut/cut_network.h"

#include <algorithm>
#include <string>
#include <utility>

#include "network/cut/loops.h"
#include "network/cut/memory/arrange_nodes.h"
#include "network/cut/sizes/family_graph.h"
#include "network/cut/slice_inputs.h"
#include "network/cut/updates.h"
#include "network/fusion/plan_fusion.h"
#include "network/fusion/settle_plan.h"
#include "network/passes/graph_pass.h"

namespace heddle::network {
namespace {

using Writes = std::vector<StateWrite>;

CutNetwork over_sizes(const ComputeDag& declared, const Target& target, const PassOptions& passes,
                      const Writes& writes) {
  std::vector<PassApplication> changes;
  FamilyGraph graph = family_graph(declared, target, passes, changes);
  const ComputeDag decide(at_sizes(graph.dag.outputs(), graph.usual).outputs);
  const std::vector<StageGroup> groups = plan_groups(decide, &target, Chains::Expected);
  PlanAnswers searched = search_plan(decide, groups, target, {});
  graph.choices.expect(searched);
  FusionPlan plan = plan_fusion(decide, groups, target, {}, graph.choices, true);
  end_nodes_before(writes, graph.dag, plan);
  (void)settle(plan, target);
  std::vector<ExtractedNode> nodes = extract_nodes(graph.dag, plan);
  return {std::move(graph.choices),
          std::move(changes),
          std::move(graph.usual),
          std::move(graph.dag),
          std::move(plan),
          std::move(searched),
          {},
          std::move(nodes)};
}

CutNetwork cut(const ComputeDag& declared, const Target& target, const PassOptions& passes,
               const Writes& writes) {
  if (!sizes_of(declared.outputs()).empty()) return over_sizes(declared, target, passes, writes);
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
  end_nodes_before(writes, dag, plan);
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

/// A network with loops. The order of its nodes is that of the graph, and no node runs twice.
CutNetwork cut_loops(const ComputeDag& given, const Target& target, PassOptions passes,
                     const Updates& updates) {
  const ComputeDag declared(with_updates(given.outputs(), updates));
  check_rows(updates.repeats, sizes_of(declared.outputs()), target);
  passes.concat_in_place = false;
  CutNetwork made = cut(declared, target, passes, {});
  if (passes.memory > 0)
    made.changes.push_back({to_string(ChoiceKind::Recompute),
                            "left out, because the network has loops: it may take more memory"});
  made.loops = order_loops(updates.repeats, made.dag.outputs(), declared.outputs(), made.nodes);
  return made;
}

}  // namespace

CutNetwork cut_network(const ComputeDag& declared, const Target& target, const PassOptions& passes,
                       const Updates& updates) {
  if (!updates.repeats.empty()) return cut_loops(declared, target, passes, updates);
  if (updates.empty()) {
    CutNetwork made = cut(declared, target, passes, {});
    if (passes.slices_in_place && made.usual.empty()) slice_inputs(made);
    arrange_nodes(made, {}, target, passes);
    return made;
  }
  std::vector<size_t> copied;
  while (true) {
    const UpdatedGraph updated = updated_graph(declared, updates, copied, target);
    CutNetwork made = cut(updated.graph, target, passes, updated.writes);
    const std::vector<size_t> more =
        order_by_writes(updated.writes, made.dag, made.places, made.nodes);
    copied.insert(copied.end(), more.begin(), more.end());
    if (!more.empty()) continue;
    made.copied = copied;
    made.changes.insert(made.changes.end(), updated.changes.begin(), updated.changes.end());
    for (const size_t o : copied)
      made.changes.push_back({"updates", "'" + declared.outputs()[o].name() +
                                             "' is copied into its input at the end of a call, "
                                             "because no order of the nodes reads that before"});
    arrange_nodes(made, updated.writes, target, passes);
    made.states = place_writes(updated.writes, made.dag, declared.outputs(), made.nodes);
    return made;
  }
}

std::vector<uint64_t> node_hashes(const CutNetwork& network) {
  std::vector<uint64_t> hashes;
  for (const ExtractedNode& node : network.nodes) hashes.push_back(node.dag->structural_hash());
  return hashes;
}

}  // namespace heddle::network
