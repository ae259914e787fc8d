// Loops (dsl/repeat.h) of a declaration over dimensions, and of the same at given sizes.
#pragma once

#include <vector>

#include "heddle/dag/instance.h"
#include "heddle/dsl/repeat.h"

namespace heddle::dag {

/// The loops with the counterparts of their tensors in `there`. Those that nothing reads have none, and stay.
std::vector<Repeat> repeats_in(const Instance& there, const std::vector<Repeat>& repeats);

}  // namespace heddle::dag
