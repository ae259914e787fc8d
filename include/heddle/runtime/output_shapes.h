// The shapes of the outputs of a call, for callers that make them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "heddle/runtime/kernel.h"

namespace heddle {

/// The shape of each output, in the order of the arguments, of a call with these inputs, whose
/// extents give the sizes. Throws a Runtime error, as a call does, where an input has another rank
/// than its argument, and where the inputs do not give the sizes. `name` is that of the kernel.
std::vector<Extents> output_shapes(const std::string& name, std::span<const KernelArg> args,
                                   std::span<const KernelSize> sizes,
                                   std::span<const NDArray> inputs);

}  // namespace heddle
