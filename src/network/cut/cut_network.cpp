#include "network/cut/cut_network.h"

#include <algorithm>
#include <string>
#include <utility>

#include "network/cut/loops.h"
#include "network/cut/memory/arrange_nodes.h"
#include "network/cut/sizes/family_graph.h"
#include "network/cut/slice_inputs.h"
#include "network/cut/step_plan.h"
#include "network/cut/updates.h"
#include "network/fusion/plan_fusion.h"
#include "network/fusion/settle_plan.h"
#include "network/passes/graph_pass.h"

namespace heddle::network {
namespace {

using Writes = std::vector<StateWrite>;

using Repeats = std::vector<Repeat>;

CutNetwork over_sizes(const ComputeDag& declared, const Target& target, const PassOptions& passes,
                      const Writes& writes, const Repeats& repeats) {
  std::vector<PassApplication> changes;
  FamilyGraph graph =
      family_graph(with_positions(declared, target, passes, changes), target, passes, changes);
  const ComputeDag decide(at_sizes(graph.dag.outputs(), graph.usual).outputs);
  const std::vector<StageGroup> groups = plan_groups(decide, &target, Chains::Expected);
  PlanAnswers searched = search_plan(decide, groups, target, {});
  graph.choices.expect(searched);
  FusionPlan plan = plan_fusion(decide, groups, target, {}, graph.choices, true);
  end_nodes_before(writes, graph.dag, plan);
  compute_before_turns(repeats, graph.dag, plan);
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
               const Writes& writes, const Repeats& repeats) {
  if (!sizes_of(declared.outputs()).empty())
    return over_sizes(declared, target, passes, writes, repeats);
  ChoiceList choices(passes);
  std::vector<PassApplication> changes;
  ComputeDag dag = run_passes(with_positions(declared, target, passes, changes), target, passes,
                              choices, changes);
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
  compute_before_turns(repeats, dag, plan);
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

/// Throws a User error where turns compute an output, which would have another value in each.
void check_outputs(const ComputeDag& declared, const Updates& updates, const CutNetwork& made) {
  const std::vector<int> loops = loops_of_stages(updates.repeats, made.dag);
  for (size_t o = 0; o < declared.outputs().size(); ++o) {
    const Tensor& t = declared.outputs()[o];
    const int loop = loops[static_cast<size_t>(made.dag.index_of(made.dag.outputs()[o].op()))];
    if (loop >= 0 && !is_of_loop(updates.repeats, t))
      fail_loop(updates.repeats[static_cast<size_t>(loop)],
                "the output '" + t.name() + "' depends on what differs between its turns",
                "return the rows of all turns, or the last value of a state");
  }
}

/// Nodes in their order, and the places of states. Returns the writes that are to be copied before there is
/// one.
std::vector<size_t> arrange(const ComputeDag& declared, const Updates& updates,
                            const Writes& writes, const Target& target, const PassOptions& passes,
                            CutNetwork& made) {
  std::vector<size_t> copied = order_by_writes(writes, made.dag, made.places, made.nodes);
  if (!copied.empty()) return copied;
  if (updates.repeats.empty()) {
    arrange_nodes(made, writes, target, passes);
    return {};
  }
  check_outputs(declared, updates, made);
  LoopOrder order = order_loops(updates, writes, declared.outputs(), made);
  if (!order.copied.empty()) return order.copied;
  // No node runs twice.
  if (passes.memory > 0)
    made.changes.push_back({to_string(ChoiceKind::Recompute),
                            "left out, because the network has loops: it may take more memory"});
  made.loops = std::move(order.loops);
  made.runs = runs_of_stages(updates.repeats, made.dag, made.usual);
  return {};
}

/// A network that updates inputs, or has loops.
CutNetwork cut_with(const ComputeDag& declared, const Target& target, PassOptions passes,
                    const Updates& updates) {
  std::vector<size_t> copied;
  if (!updates.repeats.empty()) {
    check_rows(updates.repeats, sizes_of(declared.outputs()), target);
    passes.concat_in_place = false;
    for (const StateUpdate& u : updates) {
      if (is_of_loop(updates.repeats, u.next))
        copied.push_back(static_cast<size_t>(position_of(declared.outputs(), u.next)));
    }
  }
  while (true) {
    const UpdatedGraph updated = updated_graph(declared, updates, copied, target);
    CutNetwork made = cut(updated.graph, target, passes, updated.writes, updates.repeats);
    const std::vector<size_t> more =
        arrange(declared, updates, updated.writes, target, passes, made);
    copied.insert(copied.end(), more.begin(), more.end());
    if (!more.empty()) continue;
    made.copied = copied;
    made.changes.insert(made.changes.end(), updated.changes.begin(), updated.changes.end());
    for (const size_t o : copied)
      made.changes.push_back({"updates", "'" + declared.outputs()[o].name() +
                                             "' is copied into its input at the end of a call, "
                                             "because no order of the nodes reads that before"});
    made.states = place_writes(updated.writes, made.dag, declared.outputs(), made.nodes);
    return made;
  }
}

}  // namespace

CutNetwork cut_network(const ComputeDag& declared, const Target& target, const PassOptions& passes,
                       const Updates& updates) {
  if (!updates.repeats.empty())
    return cut_with(ComputeDag(with_updates(declared.outputs(), updates)), target, passes, updates);
  if (!updates.empty()) return cut_with(declared, target, passes, updates);
  CutNetwork made = cut(declared, target, passes, {}, {});
  if (passes.slices_in_place && made.usual.empty()) slice_inputs(made);
  arrange_nodes(made, {}, target, passes);
  return made;
}

std::vector<uint64_t> node_hashes(const CutNetwork& network) {
  std::vector<uint64_t> hashes;
  for (const ExtractedNode& node : network.nodes) hashes.push_back(node.dag->structural_hash());
  return hashes;
}

}  // namespace heddle::network
