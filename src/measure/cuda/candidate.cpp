#include "measure/cuda/candidate.h"

#include <algorithm>

#include "driver/build_cuda.h"
#include "heddle/codegen/cuda.h"
#include "heddle/lower/lower.h"
#include "heddle/support/error.h"
#include "runtime/cuda/program_json.h"
#include "runtime/kernel/arg_json.h"
#include "support/hashing/hex.h"

namespace heddle::measuring {
namespace {

std::string of_kernel(const std::string& name) { return " in kernel '" + name + "'"; }

}  // namespace

std::string why_not_run(const CudaCandidate& candidate, const Gpu& gpu, bool no_spills) {
  const cuda::Program& program = *candidate.code.cuda;
  for (const auto* launches : {&program.prepare, &program.launches}) {
    for (const cuda::Launch& l : *launches) {
      const auto r = std::find_if(candidate.resources.begin(), candidate.resources.end(),
                                  [&](const auto& x) { return x.kernel == l.kernel; });
      if (r == candidate.resources.end()) continue;
      const int64_t threads = int64_t{l.block[0]} * l.block[1] * l.block[2];
      // Registers are allocated to warps, in units of eight registers per thread.
      const int64_t warps = (threads + gpu.warp_size - 1) / gpu.warp_size;
      const int64_t registers = (r->registers + 7) / 8 * 8 * warps * gpu.warp_size;
      if (registers > gpu.registers_per_sm) {
        return "too many registers: " + std::to_string(r->registers) + " for each of " +
               std::to_string(threads) + " threads" + of_kernel(l.kernel);
      }
      if (int64_t{l.dynamic_smem} + r->static_smem > gpu.smem_per_block) {
        return "too much shared memory: " + std::to_string(l.dynamic_smem + r->static_smem) +
               " bytes a block" + of_kernel(l.kernel) + ", at most " +
               std::to_string(gpu.smem_per_block);
      }
      if (no_spills && r->spill_stores + r->spill_loads > 0) {
        return "spills: " + std::to_string(r->spill_stores) + " bytes stored, " +
               std::to_string(r->spill_loads) + " loaded" + of_kernel(l.kernel) + " with " +
               std::to_string(r->registers) + " registers";
      }
    }
  }
  return "";
}

GpuProgram lower_candidate(const Schedule& schedule, const std::vector<Tensor>& args) {
  return lower_gpu(schedule, args, {.name = "kernel"});
}

CudaCandidate compile_candidate(const GpuProgram& program, const std::vector<Tensor>& args,
                                const Target& target) {
  cuda::Cubin cubin = cuda::compile_cuda(emit_cuda(program), target.gpu.arch);
  CudaCandidate out;
  out.resources = cubin.kernels;
  out.nvrtc_seconds = cubin.cached ? 0 : cubin.compile_s;
  out.code = driver::cuda_kernel_code(program, args, args.size(), std::move(cubin));
  return out;
}

Json to_json(const KernelCode& code) {
  Json j = cuda::to_json(*code.cuda);
  j["name"] = code.name;
  j["args"] = args_to_json(code.args);
  j["persistent"] = args_to_json(code.persistent);
  j["cubin"] = bytes_to_hex(code.cuda->cubin);
  return j;
}

KernelCode kernel_code_from_json(const Json& json) {
  auto program = std::make_shared<cuda::Program>(cuda::program_from_json(json));
  program->cubin = bytes_from_hex(json.at("cubin").as_string());
  KernelCode code;
  code.name = json.at("name").as_string();
  code.args = args_from_json(json.at("args"));
  code.persistent = args_from_json(json.at("persistent"));
  code.cuda = std::move(program);
  return code;
}

}  // namespace heddle::measuring
