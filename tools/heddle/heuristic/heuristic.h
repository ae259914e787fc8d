// The parts of `heddle heuristic`.
#pragma once

#include <functional>
#include <string>

#include "commands.h"
#include "heddle/heuristics/dataset.h"

namespace heddle::cli {

void list_heuristics(const HeuristicOptions& options);
int collect_for_heuristic(const HeuristicOptions& options);

/// Confines this process, and those that it starts, to cores such as "0,1" or "4-7". Call it before
/// anything asks for the machine. A core that is not there is a User error.
void pin_to_cores(const std::string& cores);

}  // namespace heddle::cli
