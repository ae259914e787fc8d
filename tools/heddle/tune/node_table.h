// The table of the devices of a fleet.
#pragma once

#include <string>
#include <vector>

#include "heddle/measure/measure.h"
#include "heddle/support/json.h"

namespace heddle::cli {

/// A table of trials, failures and the share of time that a device waited for work; at most `most`
/// lines, the last of which then says how many devices are left out. Empty where there are none.
std::vector<std::string> node_lines(const std::vector<NodeUse>& nodes, size_t most);
Json nodes_json(const std::vector<NodeUse>& nodes);

}  // namespace heddle::cli
