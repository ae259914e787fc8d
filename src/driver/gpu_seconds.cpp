#include "driver/gpu_seconds.h"

#include "heddle/runtime/cuda_timing.h"
#include "heddle/support/error.h"

namespace heddle::driver {

GpuSets gpu_sets(const std::vector<NDArray>& arrays) {
  constexpr int64_t kBytes = 128 << 20;  // more than the L2 of a GPU holds
  constexpr int kMostSets = 32;
  std::vector<NDArray> there;
  for (const NDArray& a : arrays) there.push_back(a.to_device(Device::cuda()));
  return cuda::rotated_arguments(there, kBytes, kMostSets);
}

double gpu_seconds(const Kernel& kernel, const GpuSets& sets, double budget) {
  cuda::TimingOptions options;
  options.cold_l2 = false;  // what the sets do not cover is small enough to stay in it
  options.budget_s = budget;
  const cuda::Timing t = cuda::time_kernel(kernel, sets, options);
  if (!t.ok()) throw_runtime_error("kernel '" + kernel.name() + "' failed: " + t.message);
  return t.measurement.median_s;
}

}  // namespace heddle::driver
