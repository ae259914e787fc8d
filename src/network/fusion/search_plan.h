// Searches the answers to the choices of a plan of fusion by what the whole plan costs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "heddle/schedule/stage_group.h"
#include "heddle/target/target.h"
#include "network/passes/concat_in_place.h"

namespace heddle::network {

/// Answers to choices of plan_fusion, by name.
using PlanAnswers = std::map<std::string, bool>;

/// The answers for which a plan costs less (fusion_cost.h) than with those of the rules, where they
/// differ. `groups` and `in_place` as plan_fusion takes them.
///
/// The search begins with the plan of the rules. Choices that change a node in common are one
/// component. Of a component of few choices all answers are costed, of a larger one each choice in
/// turn, until none is better. The number of plans that are costed is bounded. Other answers are
/// taken where they gain more than the cost is known to be wrong, as a share of the time of the
/// nodes that they replace; they are given up where they gain nothing once both plans are settled
/// (settle_plan.h).
///
/// The answers do not depend on what the caller sets: who flips one choice changes no other.
///
/// It finds nothing for several threads, because the cost does not say how well they share the work
/// of several stages, and nothing for GPUs, where it contradicts what calls take.
PlanAnswers search_plan(const ComputeDag& dag, const std::vector<StageGroup>& groups,
                        const Target& target, const InPlacePlan& in_place);

}  // namespace heddle::network
