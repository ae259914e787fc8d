// What the loops of a network (dsl/repeat.h) have computed.
#pragma once

#include <vector>

#include "heddle/dsl/repeat.h"

namespace heddle {

/// What Repeat::computed() has of each of the loops, once.
std::vector<Tensor> computed_for(const std::vector<Repeat>& repeats);

}  // namespace heddle
