// Where the kernels of a family hand over to each other, between the sizes that were raced.
#pragma once

#include <vector>

#include "heddle/runtime/family_kernel.h"
#include "heddle/support/function_ref.h"

namespace heddle::family {

/// Moves the thresholds of `tree`, which asks for one size only, to where the variants of both
/// sides are equally fast, by bisection. `raced` are the sizes that were raced, in order.
/// `holds(below, above, size)` says whether variant `below` is at least as fast as variant `above`.
void find_boundaries(SizeTree& tree, const std::vector<int64_t>& raced,
                     FunctionRef<bool(int below, int above, int64_t size)> holds);

}  // namespace heddle::family
