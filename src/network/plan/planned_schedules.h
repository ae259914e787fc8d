// What a plan has for the tasks of a network, as schedules.
#pragma once

#include <optional>
#include <vector>

#include "heddle/network/plan.h"

namespace heddle::network {

/// The schedules that the plan of a network has for its tasks of constant extents (Network::planned),
/// one entry for each of Network::tasks(); nothing where it has none.
std::vector<std::optional<Schedule>> planned_schedules(const Network& network);

/// The runners-up of a node, for the declaration of `tmpl`. Those that do not hold there are left
/// out.
std::vector<Schedule> runners_up_of(const NetworkPlan& plan, const PlannedNode& node,
                                    const Template& tmpl);

}  // namespace heddle::network
