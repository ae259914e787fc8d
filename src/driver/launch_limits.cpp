#include "driver/launch_limits.h"

#include "target/grid_limits.h"

namespace heddle::driver {
namespace {

std::string number(int64_t n) { return std::to_string(n); }

std::optional<BeyondLimit> beyond_limit(const GpuKernel& k, const Gpu& gpu) {
  const std::string here = " in kernel '" + k.name + "'";
  if (const int64_t threads = k.block[0] * k.block[1] * k.block[2]; threads > gpu.threads_per_block)
    return BeyondLimit{"too many threads: " + number(threads) + " a block" + here + ", at most " +
                           number(gpu.threads_per_block) + " on " + gpu.name,
                       "bind shorter loops to threadIdx"};
  if (k.shared_bytes > gpu.smem_per_block)
    return BeyondLimit{"too much shared memory: " + number(k.shared_bytes) + " bytes a block" +
                           here + ", at most " + number(gpu.smem_per_block) + " on " + gpu.name,
                       "choose smaller tiles or fewer copies of them"};
  if (k.cluster > 1 && !gpu.has_clusters())
    return BeyondLimit{
        "clusters of blocks" + here + ", which " + gpu.arch + " has not: sm_90 and later have",
        "bind the loop to blockIdx.x"};
  if (!is_launchable(k.grid))
    return BeyondLimit{"too large a grid: " + number(k.grid[0]) + " x " + number(k.grid[1]) +
                           " x " + number(k.grid[2]) + " blocks" + here + ", at most " +
                           number(kMostBlocks[0]) + " x " + number(kMostBlocks[1]) + " x " +
                           number(kMostBlocks[2]),
                       "bind the longest loop to blockIdx.x"};
  return std::nullopt;
}

}  // namespace

std::optional<BeyondLimit> beyond_limit(const GpuProgram& program, const Gpu& gpu) {
  for (const auto* kernels : {&program.prepare, &program.main}) {
    for (const GpuKernel& k : *kernels) {
      if (std::optional<BeyondLimit> found = beyond_limit(k, gpu)) return found;
    }
  }
  return std::nullopt;
}

}  // namespace heddle::driver
