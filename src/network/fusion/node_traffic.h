// How long the nodes of a network take to move what they read and write.
#pragma once

#include <vector>

#include "schedule/groups/machine_rates.h"

namespace heddle::network {

/// The results of stages that a node reads or writes, each by a number.
struct NodeTraffic {
  std::vector<int> touched;  ///< each once
  std::vector<int> written;  ///< of these
  double bytes = 0;          ///< of those that are touched
};

/// For each node of a call the seconds for what it touches; `bytes` are those of each result. A
/// result is in the first level that holds all that was touched since it was touched last; what no
/// node before touched, since the last call. What a node writes lies where others lay before: in the
/// first level that holds all results that are alive then.
std::vector<double> moving_seconds(const std::vector<NodeTraffic>& nodes,
                                   const std::vector<double>& bytes, const MachineRates& rates);

}  // namespace heddle::network
