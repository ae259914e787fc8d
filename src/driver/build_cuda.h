#pragma once

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "heddle/driver/build.h"
#include "heddle/lower/gpu_program.h"
#include "lower/passes/finite_checks.h"

namespace heddle {

/// build_timed() for a schedule whose target is of kind "cuda".
TimedBuild build_cuda(const Schedule& schedule, const std::vector<Tensor>& args,
                      const BuildOptions& options);

/// The code of such a kernel: lowered, checked against the limits of the GPU, and compiled. Needs
/// no GPU. Constants with values that `args` leaves out are supplied by the kernel. `sizes` gets
/// the dimensions of the declaration in the order in which the kernel takes their sizes. Where it
/// is null, throws a User error for a declaration over dimensions.
KernelCode compile_cuda_code(const Schedule& schedule, const std::vector<Tensor>& args,
                             const BuildOptions& options, std::vector<Var>* sizes = nullptr);

/// The same for a lowered program of constant sizes whose arguments are `all`. Callers pass the
/// first `listed` of them.
KernelCode compile_cuda_code(const GpuProgram& program, const std::vector<Tensor>& all,
                             size_t listed, const Gpu& gpu);

/// The parts of a Kernel for the runtime, without its source. `cubin` is the machine code of
/// emit_cuda(program), and `checks` those that it has. Callers pass the first `listed` arguments;
/// the others are bound constants.
KernelCode cuda_kernel_code(const GpuProgram& program, const std::vector<Tensor>& all,
                            size_t listed, cuda::Cubin cubin, const FiniteChecks& checks = {});

/// The arguments of such a kernel, which are aligned (see program_args.h).
std::vector<KernelArg> cuda_kernel_args(const std::vector<Tensor>& all, size_t listed,
                                        const std::vector<int>& constant_args,
                                        const std::vector<Var>& sizes = {});

/// The description of a kernel argument that the runtime checks; -1 for symbolic extents.
KernelArg describe(const Buffer& buffer);

}  // namespace heddle
