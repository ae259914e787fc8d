#include "heddle/driver/gpu_kernel_use.h"

#include <algorithm>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "heddle/codegen/cuda.h"

namespace heddle {
namespace {

// Blocks per SM after the CUDA C++ Programming Guide: registers are allocated to warps, in units of
// eight registers per thread.
int blocks_per_sm(const GpuKernelUse& use, const Gpu& gpu) {
  const int64_t warps = (use.threads + gpu.warp_size - 1) / gpu.warp_size;
  const int64_t registers = (use.registers + 7) / 8 * 8 * warps * gpu.warp_size;
  int64_t most = std::min<int64_t>(gpu.blocks_per_sm, gpu.threads_per_sm / (warps * gpu.warp_size));
  if (registers > 0) most = std::min(most, gpu.registers_per_sm / registers);
  most = std::min(most, gpu.smem_per_sm / (use.shared_bytes + gpu.smem_reserved));
  return static_cast<int>(most);
}

}  // namespace

std::vector<GpuKernelUse> gpu_kernel_uses(const GpuProgram& program, const Target& target) {
  const cuda::Cubin cubin = cuda::compile_cuda(emit_cuda(program), target.gpu.arch);
  std::vector<GpuKernelUse> out;
  for (const auto* kernels : {&program.prepare, &program.main}) {
    for (const GpuKernel& k : *kernels) {
      GpuKernelUse use{.kernel = k.name,
                       .blocks = k.grid[0] * k.grid[1] * k.grid[2],
                       .threads = k.block[0] * k.block[1] * k.block[2],
                       .shared_bytes = k.shared_bytes};
      if (const cuda::KernelResources* r = cubin.find(k.name)) {
        use.shared_bytes += r->static_smem;
        use.registers = r->registers;
        use.spilled_bytes = r->spill_stores + r->spill_loads;
      }
      use.blocks_per_sm = blocks_per_sm(use, target.gpu);
      out.push_back(use);
    }
  }
  return out;
}

}  // namespace heddle
