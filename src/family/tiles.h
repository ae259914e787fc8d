// Whether tiles of a matrix unit keep their form for all sizes.
#pragma once

#include <vector>

#include "heddle/schedule/schedule.h"

namespace heddle::family {

/// Whether all loops that tensorize() marks are products of full tiles in the program for all
/// sizes, too. Where the region of a tile depends on a size, lowering makes several statements of
/// it, and code generation refuses them. `at_one_size` is a schedule for a CPU.
bool tiles_hold(const Schedule& at_one_size, const std::vector<Tensor>& outputs);

}  // namespace heddle::family
