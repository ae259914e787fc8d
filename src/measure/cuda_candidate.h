// A candidate for a GPU between the process that compiles it and the one that runs it.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/nvrtc.h"
#include "heddle/lower/gpu_program.h"
#include "heddle/runtime/cuda_program.h"
#include "heddle/runtime/kernel.h"
#include "heddle/schedule/schedule.h"
#include "heddle/support/json.h"
#include "heddle/target/target.h"

namespace heddle::measuring {

struct CudaCandidate {
  KernelCode code;
  std::vector<cuda::KernelResources> resources;
  double nvrtc_seconds = 0;  ///< of the compiler alone; 0: the machine code was on the disk
};

/// Why a GPU could not launch kernels of this program, known before they are compiled; "" when it
/// could. What comes before the colon is the reason that reports count.
std::string why_not_launched(const GpuProgram& program, const Gpu& gpu);
/// The same of compiled ones, from what ptxas says; `no_spills`: and why it is not worth a run.
std::string why_not_run(const CudaCandidate& candidate, const Gpu& gpu, bool no_spills);

/// Lowers and compiles. Throws what lowering, text and NVRTC throw.
GpuProgram lower_candidate(const Schedule& schedule, const std::vector<Tensor>& args);
CudaCandidate compile_candidate(const GpuProgram& program, const std::vector<Tensor>& args,
                                const Target& target);

/// Between processes of one program: machine code as hexadecimal digits.
Json to_json(const KernelCode& code);
KernelCode kernel_code_from_json(const Json& json);

}  // namespace heddle::measuring
