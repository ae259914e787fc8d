// Times of kernels on the GPU that is here.
#pragma once

#include <vector>

#include "heddle/runtime/kernel.h"

namespace heddle::driver {

/// Arguments of successive calls.
using GpuSets = std::vector<std::vector<NDArray>>;

/// Copies of the arrays on the GPU: together more than its L2 holds, where 32 of each suffice.
GpuSets gpu_sets(const std::vector<NDArray>& arrays);

/// The median of the seconds of a call. Throws a Runtime error where the kernel fails.
double gpu_seconds(const Kernel& kernel, const GpuSets& sets, double budget);

}  // namespace heddle::driver
