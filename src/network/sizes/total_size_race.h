// Times candidates of tasks in calls that are only timed as a whole, as on a GPU.
#pragma once

#include <cstddef>
#include <vector>

#include "heddle/network/network.h"
#include "network/race/call_timer.h"
#include "network/run/network_kernel_impl.h"

namespace heddle::network {

/// The seconds of all nodes of a task in one call, by task and candidate: `counts` of each task,
/// the first ones of its steps. The candidates of a task take turns in calls that have the fastest
/// ones of the tasks before it, and the first ones of those after it. A call that runs the nodes of
/// the task twice takes a turn, too: what it takes longer is the time of the first candidate.
/// There are at least two rounds, and more while the tasks took less than `seconds`. One that takes
/// more than twice as long as the best one of its task has one round.
std::vector<std::vector<double>> race_totals_at_size(const std::vector<NetworkNode>& nodes,
                                                     const std::vector<ProgramStep>& steps,
                                                     const std::vector<size_t>& counts,
                                                     CallTimer& timer, double seconds);

}  // namespace heddle::network
