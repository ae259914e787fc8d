// The ranges of the inputs of a network's tasks.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "dag/errors/value_range.h"
#include "heddle/network/network.h"

namespace heddle::network {

/// The range of uniform inputs for a tensor whose values lie in `range`: its part in [-1, 1], or
/// its nearest part of about that size. Empty where it equals the range of NDArray::random.
std::optional<InputRange> drawn_range(const dag::ValueRange& range, DataType t);

/// Sets `input_ranges` of all tasks: the ranges of the inputs that the nodes of the network read,
/// over all calls. `again` are tensors beside those of the graph, with those whose values they have.
void set_input_ranges(const ComputeDag& network,
                      const std::vector<std::pair<Tensor, Tensor>>& again,
                      const std::vector<NetworkNode>& nodes, std::vector<TuneTask>& tasks);

}  // namespace heddle::network
