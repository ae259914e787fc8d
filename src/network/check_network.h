// Checks of the arguments that users pass to a network.
#pragma once

#include <vector>

#include "heddle/network/network.h"

namespace heddle::network {

/// The rules for the arguments of build(): every input and output once, nothing else; constants
/// that have values may be left out.
void check_tensors(const ComputeDag& dag, const std::vector<Tensor>& args);

/// One a task, for the task and its kind of target.
void check_schedules(const std::vector<TuneTask>& tasks, const std::vector<Schedule>& schedules);

}  // namespace heddle::network
