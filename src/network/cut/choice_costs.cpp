#include "network/cut/choice_costs.h"

#include "heddle/support/error.h"
#include "network/cut/loops.h"
#include "network/cut/memory/node_costs.h"
#include "network/fusion/plan_fusion.h"
#include "network/fusion/settle_plan.h"

namespace heddle::network {

namespace {

std::optional<PlanCost> cost_if_possible(const ComputeDag& declared, const Target& target,
                                         const PassOptions& passes, const Updates& updates) {
  try {
    return cost_of(cut_network(declared, target, passes, updates), target);
  } catch (const Error& e) {
    if (e.kind != ErrorKind::User) throw;
    return std::nullopt;
  }
}

}  // namespace

std::vector<ChoiceCost> choice_costs(const CutNetwork& network, const ComputeDag& declared,
                                     const Target& target, const PassOptions& passes,
                                     const Updates& updates) {
  const ComputeDag& dag = network.plan.dag();
  InPlacePlan in_place;
  if (passes.concat_in_place) in_place = plan_concats(dag);
  const std::vector<StageGroup> groups = plan_groups(dag, &target, Chains::Expected);
  std::vector<ChoiceCost> costs;
  for (const NetworkChoice& choice : network.choices.list()) {
    PassOptions flipped = passes;
    flipped.choices[choice.name] = !choice.on;
    // Choices of passes change the graph, and a limit of memory is about the nodes.
    if (passes.memory > 0 || !is_of_cut(*kind_of(choice.name))) {
      costs.push_back({choice, cost_if_possible(declared, target, flipped, updates)});
      continue;
    }
    ChoiceList choices(flipped);
    choices.expect(network.searched);
    FusionPlan plan = plan_fusion(dag, groups, target, in_place, choices);
    compute_before_turns(updates.repeats, network.dag, plan);
    (void)settle(plan, target);
    costs.push_back({choice, cost_of(plan, target, network.runs)});
  }
  return costs;
}

}  // namespace heddle::network
