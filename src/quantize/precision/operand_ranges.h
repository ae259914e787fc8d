// The ranges of what products read, on calls.
#pragma once

#include <vector>

#include "heddle/runtime/ndarray.h"
#include "quantize/precision/operand_types.h"

namespace heddle::quantize {

/// An input of a graph, and its values in calls.
struct GivenInput {
  Tensor tensor;
  std::vector<NDArray> values;
};

/// Sets the ranges of the candidates' sources. Those inside the graph are computed in f32.
void find_ranges(std::vector<Candidate>& candidates, const std::vector<GivenInput>& inputs);

}  // namespace heddle::quantize
