// What the kernels of a GPU program use, as the compiler says: known without a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/lower/gpu_program.h"
#include "heddle/target/target.h"

namespace heddle {

struct GpuKernelUse {
  std::string kernel;
  int64_t blocks = 0, threads = 0;  ///< of the grid; of a block
  int64_t shared_bytes = 0;         ///< of a block
  int registers = 0;                ///< of a thread
  int spilled_bytes = 0;            ///< of a thread, stored and loaded
  int blocks_per_sm = 0;            ///< at a time, by all of these
};

/// Compiles the program for the target's architecture (NVRTC, or its cache); those of `prepare`
/// first. Throws what compilation throws.
std::vector<GpuKernelUse> gpu_kernel_uses(const GpuProgram& program, const Target& target);

}  // namespace heddle
