#pragma once

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "heddle/driver/build.h"
#include "heddle/lower/gpu_program.h"
#include "lower/passes/finite_checks.h"

namespace heddle::driver {

/// The code of a kernel for a GPU: lowered, checked against the limits of the GPU, and compiled. Needs
/// no GPU. Constants with values that `args` leaves out are supplied by the kernel. `sizes` gets
/// the dimensions of the declaration in the order in which the kernel takes their sizes.
KernelCode compile_cuda_code(const Schedule& schedule, const std::vector<Tensor>& args,
                             const BuildOptions& options, std::vector<Var>* sizes);

/// The same for a lowered program whose arguments are `all`. Callers pass the first `listed` of
/// them. `in_part`: outputs of which a call leaves elements as they are.
KernelCode compile_cuda_code(const GpuProgram& program, const std::vector<Tensor>& all,
                             size_t listed, const Gpu& gpu, const std::vector<int>& in_part = {});

/// The parts of a Kernel for the runtime, without its source. `cubin` is the machine code of
/// emit_cuda(program), and `checks` those that it has. Callers pass the first `listed` arguments;
/// the others are bound constants.
KernelCode cuda_kernel_code(const GpuProgram& program, const std::vector<Tensor>& all,
                            size_t listed, cuda::Cubin cubin,
                            const lowering::FiniteChecks& checks = {},
                            const std::vector<int>& in_part = {});

/// The arguments of such a kernel, which are aligned (see program_args.h).
std::vector<KernelArg> cuda_kernel_args(const std::vector<Tensor>& all, size_t listed,
                                        const std::vector<int>& constant_args,
                                        const std::vector<Var>& sizes = {});

/// The description of a kernel argument that the runtime checks; -1 for symbolic extents.
KernelArg describe(const Buffer& buffer);

}  // namespace heddle::driver
