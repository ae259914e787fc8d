// What tuning takes for the time of a task, compared with the time of its nodes in the network.
#pragma once

#include <string>
#include <vector>

#include "heddle/measure/measure.h"
#include "heddle/network/network.h"

namespace heddle::network {

/// The static schedule of a task of a network.
struct TaskTimes {
  std::string name;
  int nodes = 0;             ///< nodes of the network that call the task
  double in_network_s = 0;   ///< mean seconds of its nodes in calls of the network
  double as_measured_s = 0;  ///< seconds of a call as `measurer` measures it; 0: it failed
  std::string failure;       ///< why it was not measured; empty where it was
  /// Nodes times seconds of a call.
  double sum_in_network_s() const { return nodes * in_network_s; }
  double sum_as_measured_s() const { return nodes * as_measured_s; }
};

/// Measures the static schedule of each task of a network for the CPU, in turns with calls of the
/// network. Machines drift by tens of per cent within minutes, so times of different minutes do not
/// compare: `as_measured_s` is the time in the network times the median, over the rounds, of the
/// quotient of a measurement and the calls before and after it. Inputs are random. A round takes
/// some tenths of a second for each task, mostly to compile it. Throws a user error for networks on
/// GPUs and for those over ranges of sizes.
std::vector<TaskTimes> time_tasks(const Network& network, Measurer& measurer, int rounds = 3);

}  // namespace heddle::network
