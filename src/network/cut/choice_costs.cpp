#include "network/cut/choice_costs.h"

#include "network/fusion/plan_fusion.h"
#include "network/fusion/settle_plan.h"

namespace heddle::network {

std::vector<ChoiceCost> choice_costs(const CutNetwork& network, const ComputeDag& declared,
                                     const Target& target, const PassOptions& passes) {
  const ComputeDag& dag = network.plan.dag();
  InPlacePlan in_place;
  if (passes.concat_in_place) in_place = plan_concats(dag);
  const std::vector<StageGroup> groups = plan_groups(dag, &target, Chains::Expected);
  std::vector<ChoiceCost> costs;
  for (const NetworkChoice& choice : network.choices.list()) {
    PassOptions flipped = passes;
    flipped.choices[choice.name] = !choice.on;
    ChoiceList choices(flipped);
    choices.expect(network.searched);
    // Choices of passes change the graph.
    FusionPlan plan = is_fusion_choice(choice.name)
                          ? plan_fusion(dag, groups, target, in_place, choices)
                          : cut_network(declared, target, flipped).plan;
    (void)settle(plan, target);
    costs.push_back({choice, cost_of(plan, target)});
  }
  return costs;
}

}  // namespace heddle::network
