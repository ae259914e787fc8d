#pragma once

#include "codegen/cuda/nvrtc.h"
#include "heddle/driver/build.h"
#include "heddle/lower/gpu_program.h"

namespace heddle {

/// build_timed() for a schedule whose target is of kind "cuda".
TimedBuild build_cuda(const Schedule& schedule, const std::vector<Tensor>& args,
                      const BuildOptions& options);

/// The parts of a Kernel for the runtime, without its source. `cubin` is the machine code of
/// emit_cuda(program). Callers pass the first `listed` arguments; the others are bound constants.
KernelCode cuda_kernel_code(const GpuProgram& program, const std::vector<Tensor>& all,
                            size_t listed, cuda::Cubin cubin);

/// The description of a kernel argument that the runtime checks.
KernelArg describe(const Buffer& buffer);

}  // namespace heddle
