// Serialised GPU candidates, for compiling in one process and running in another.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "heddle/lower/gpu_program.h"
#include "heddle/runtime/kernel.h"
#include "heddle/schedule/schedule.h"
#include "heddle/support/json.h"
#include "heddle/target/target.h"
#include "runtime/cuda/cuda_program.h"

namespace heddle::measuring {

struct CudaCandidate {
  KernelCode code;
  std::vector<cuda::KernelResources> resources;
  double nvrtc_seconds =
      0;  ///< seconds of the compiler alone; 0 where the machine code was on the disk
};

/// The reason why a GPU could not launch these kernels, from the output of ptxas; "" when it could. Reports count
/// the text before the colon. With `no_spills`, kernels that spill registers are also refused. What is known before
/// they are compiled: driver/launch_limits.h.
std::string why_not_run(const CudaCandidate& candidate, const Gpu& gpu, bool no_spills);

/// Lowers and compiles. Throws the errors of lowering, text generation and NVRTC.
GpuProgram lower_candidate(const Schedule& schedule, const std::vector<Tensor>& args);
CudaCandidate compile_candidate(const GpuProgram& program, const std::vector<Tensor>& args,
                                const Target& target);

/// The code as JSON, with machine code as hexadecimal digits, for processes of one program.
Json to_json(const KernelCode& code);
KernelCode kernel_code_from_json(const Json& json);

}  // namespace heddle::measuring
