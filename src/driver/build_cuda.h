#pragma once

#include "codegen/cuda/nvrtc.h"
#include "heddle/driver/build.h"
#include "heddle/lower/gpu_program.h"

namespace heddle {

/// build() for a schedule whose target is of kind "cuda".
Kernel build_cuda(const Schedule& schedule, const std::vector<Tensor>& args,
                  const BuildOptions& options, BuildTimes* times);

/// What the runtime makes a Kernel of, without its source; `cubin` is of emit_cuda(program). The
/// first `listed` of all arguments are passed by callers, the others are bound constants.
KernelCode cuda_kernel_code(const GpuProgram& program, const std::vector<Tensor>& all,
                            size_t listed, cuda::Cubin cubin);

/// A kernel's argument as the runtime checks it.
KernelArg describe(const Buffer& buffer);

}  // namespace heddle
