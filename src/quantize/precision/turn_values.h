// The values that loops of a network (dsl/repeat.h) hand on, on calls.
#pragma once

#include <vector>

#include "heddle/network/network.h"
#include "quantize/precision/operand_ranges.h"

namespace heddle::quantize {

/// The inputs of a graph that loops are parts of: those of calls, and in their place some turns of each call,
/// with what turns read and what is read behind the loops. `inputs` themselves without loops.
std::vector<GivenInput> with_turns(const Network& network, std::vector<GivenInput> inputs);

}  // namespace heddle::quantize
