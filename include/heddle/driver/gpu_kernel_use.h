// The resources that the kernels of a GPU program use, as reported by the compiler. This needs no
// GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/lower/gpu_program.h"
#include "heddle/target/target.h"

namespace heddle {

/// The resources that one kernel of a GPU program uses.
struct GpuKernelUse {
  std::string kernel;
  int64_t blocks = 0, threads = 0;  ///< blocks of the grid; threads of a block
  int64_t shared_bytes = 0;         ///< bytes of shared memory of a block
  int registers = 0;                ///< registers of a thread
  int spilled_bytes = 0;            ///< bytes that a thread spills, stored and loaded
  int blocks_per_sm = 0;            ///< blocks that an SM holds at a time, limited by all of these
};

/// Compiles the program for the architecture of the target (with NVRTC, or from its cache). The
/// kernels of `prepare` come first. Throws the errors of compilation.
std::vector<GpuKernelUse> gpu_kernel_uses(const GpuProgram& program, const Target& target);

}  // namespace heddle
