// The size of the weights of a network, in the form in which its kernels read them.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/network/network.h"

namespace heddle::network {

/// The values that depend on constants alone and that calls of this schedule read: weights as
/// declared, or what a rewriting of the graph makes of them (Winograd's are 2.25 or 4 times as
/// large).
std::vector<Tensor> weights_of(const Schedule& schedule);

/// Their bytes.
int64_t weight_bytes(const Schedule& schedule);

/// Tells the tasks what all weights of the network take (TuneTask::network_bytes).
void set_network_bytes(const std::vector<NetworkNode>& nodes, std::vector<TuneTask>& tasks);

}  // namespace heddle::network
