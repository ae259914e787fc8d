// Other schedules of the kernels that lose most time, raced in calls of the network.
#pragma once

#include <span>
#include <vector>

#include "network/audit/task_schedule.h"

namespace heddle::network {

/// Finds other schedules for the first `options.worst` of `found.rows` and races them against those
/// that run, `running` (one for each task). The rows get bounds and changes. What could not be
/// tuned or raced is a problem of `found`.
void find_faster_schedules(const Network& network, std::span<const TaskSchedule> running,
                           const AuditOptions& options, Audit& found);

}  // namespace heddle::network
