// Checks of the arguments that users pass to a network.
#pragma once

#include <vector>

#include "heddle/network/network.h"

namespace heddle::network {

/// The arguments of build(), constants with values among them: inputs, then outputs. `declared` is the
/// graph of the network's outputs.
std::vector<Tensor> all_args(const Network& network, const ComputeDag& declared);

/// Checks the rules for the arguments of build(): every input and output once, and nothing else.
/// Constants with values may be left out.
void check_tensors(const Network& network, const ComputeDag& declared,
                   const std::vector<Tensor>& args);

/// Whether the shape of one of the arguments gives the size in a call.
bool give_size(const std::vector<Tensor>& args, const Var& size);

/// The values of the network's sizes, in its order.
std::vector<int64_t> values_of(const Network& network, const std::vector<SizeValue>& at);

/// Whether calls at these values of the sizes update only rows that their states have. Others are
/// refused.
bool takes(const Network& network, const std::vector<SizeValue>& at);

/// Checks that there is one schedule for each task, for the task and its kind of target.
void check_schedules(const std::vector<TuneTask>& tasks, const std::vector<Schedule>& schedules);

}  // namespace heddle::network
