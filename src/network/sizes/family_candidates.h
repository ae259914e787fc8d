// The schedules that race for a task over dimensions.
#pragma once

#include <span>
#include <vector>

#include "heddle/family/choose.h"
#include "network/cut/sizes/family_tasks.h"

namespace heddle::network {

/// Different schedules for all sizes: those of `at_points`, which are for the tasks of `family`,
/// as they are, with longer blocks and with shorter ones. Those that a build without a race takes
/// come first. A schedule that does not hold for all sizes is replaced by the static choice of its
/// task.
std::vector<FamilyVariant> family_candidates(const TaskFamily& family,
                                             std::span<const Schedule> at_points,
                                             std::span<const TuneTask> tasks,
                                             const std::vector<Dim>& dims);

}  // namespace heddle::network
