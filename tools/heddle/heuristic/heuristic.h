// The parts of `heddle heuristic`.
#pragma once

#include <functional>
#include <string>

#include "commands.h"
#include "heddle/heuristics/dataset.h"

namespace heddle::cli {

void list_heuristics(const HeuristicOptions& options);
int collect_for_heuristic(const HeuristicOptions& options);
void train_heuristic(const HeuristicOptions& options);
void evaluate_heuristic(const HeuristicOptions& options);
void generate_heuristic(const HeuristicOptions& options);
void explain_heuristic(const HeuristicOptions& options);

/// The data that logs of tuning contain for a heuristic: a problem for each declaration with a
/// known subject and a measured static choice, with the choices of the portfolio that tuning tried.
HeuristicData data_from_records(const std::vector<std::string>& files, const std::string& name);

/// Restricts this process, and those that it starts, to cores such as "0,1" or "4-7". Call it
/// before any query of the machine. A core that does not exist is a User error.
void pin_to_cores(const std::string& cores);

}  // namespace heddle::cli
