#include "network/race/call_timer.h"

#include <algorithm>

#include "heddle/runtime/cuda.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/timer.h"
#include "measure/process/pool.h"
#include "runtime/kernel/kernel_impl.h"

namespace heddle::network {
namespace {

// Seconds. A shorter call is made twice and timed the second time, so that the packed weights of
// these kernels are in the caches as in a network that is called repeatedly. Longer calls use so
// much memory that it makes no difference.
constexpr double kShortCall = 0.05;

class StepTimer : public CallTimer {
 public:
  StepTimer(const Arrays& arrays, const StateCopies& states) : arrays_(arrays), states_(states) {}

  CallTimes time(std::span<const StepCall> call) override {
    states_.restore();
    if (last_seconds_ < kShortCall) once(call);
    CallTimes times = once(call);
    last_seconds_ = times.total;
    return times;
  }

 private:
  CallTimes once(std::span<const StepCall> call) const {
    CallTimes times;
    const Timer timer;
    for (const StepCall& part : call) {
      call_checked(*part.kernel, arrays_[part.step]);
      const double now = timer.elapsed_s();
      times.steps.push_back(now - times.total);
      times.total = now;
    }
    return times;
  }

  const Arrays& arrays_;
  const StateCopies& states_;
  double last_seconds_ = 0;
};

}  // namespace

std::unique_ptr<CallTimer> make_call_timer(const Target& target, const CallTimer::Arrays& arrays,
                                           const StateCopies& states) {
  if (target.is_cuda()) return make_graph_timer(arrays, states);
  return std::make_unique<StepTimer>(arrays, states);
}

void run_once(std::span<const StepCall> call, const CallTimer::Arrays& arrays) {
  for (const StepCall& part : call) call_checked(*part.kernel, arrays[part.step]);
}

Device device_of(const Target& target) { return target.is_cuda() ? Device::cuda() : Device::cpu(); }

int64_t free_bytes(const Target& target) {
  if (!target.is_cuda()) return measuring::free_memory_bytes();
  const std::vector<cuda::DeviceInfo> gpus = cuda::devices();
  return gpus.empty() ? 0 : gpus[0].memory_bytes - cuda::memory_stats().used_bytes;
}

int race_threads(const Target& target) {
  return target.is_cuda() ? default_num_threads() : std::max(1, target.cores);
}

}  // namespace heddle::network
