// Checks of the arguments that users pass to a network.
#pragma once

#include <vector>

#include "heddle/network/network.h"

namespace heddle::network {

/// The arguments of build(), constants with values among them: inputs, then outputs.
std::vector<Tensor> all_args(const Network& network);

/// Checks the rules for the arguments of build(): every input and output once, and nothing else.
/// Constants with values may be left out.
void check_tensors(const Network& network, const std::vector<Tensor>& args);

/// Checks that there is one schedule for each task, for the task and its kind of target.
void check_schedules(const std::vector<TuneTask>& tasks, const std::vector<Schedule>& schedules);

}  // namespace heddle::network
