// What a call checks before any code runs; shared by kernels and networks of kernels.
#pragma once

#include <span>
#include <string>

#include "heddle/runtime/kernel.h"

namespace heddle {

/// Throws a Runtime error that names the argument: for a wrong count, type, shape or alignment, or
/// for an output that shares memory with another argument. `name` is the kernel's.
void check_arguments(const std::string& name, std::span<const KernelArg> args,
                     std::span<const NDArray> arrays);

}  // namespace heddle
