// Registers that warp groups of kernels exchange (setmaxnreg), where kernels are to share a launch.
#pragma once

#include <vector>

#include "heddle/lower/gpu_program.h"
#include "heddle/target/target.h"

namespace heddle::gpu {

/// Whether all kernels exchange registers and can do so from the number that the threads of a launch of all
/// of them begin with, or none does.
bool exchange_alike(const std::vector<const GpuKernel*>& kernels, const Gpu& gpu);

}  // namespace heddle::gpu
