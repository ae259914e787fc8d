// The runners-up of a plan as schedules.
#pragma once

#include <vector>

#include "heddle/network/plan.h"

namespace heddle::network {

/// The runners-up of a node, for the declaration of `tmpl`. Those that do not hold there are left
/// out.
std::vector<Schedule> runners_up_of(const NetworkPlan& plan, const PlannedNode& node,
                                    const Template& tmpl);

}  // namespace heddle::network
