#include "network/race/call_timer.h"

#include <algorithm>

#include "heddle/runtime/cuda.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/timer.h"
#include "measure/process/pool.h"
#include "runtime/cuda/one_call.h"

namespace heddle::network {
namespace {

// Seconds. A shorter call is made twice and timed the second time, so that the packed weights of
// these kernels are in the caches as in a network that is called repeatedly. Longer calls use so
// much memory that it makes no difference.
constexpr double kShortCall = 0.05;

void run_part(const StepCall& part, const CallTimer::Args& args) {
  const StepArgs& step = args[part.step];
  for (int64_t run = 0; run < step.runs; ++run) call_checked(*part.kernel, step.arrays, step.sizes);
}

class StepTimer : public CallTimer {
 public:
  StepTimer(const Args& args, const StateCopies& states) : args_(args), states_(states) {}

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
      run_part(part, args_);
      const double now = timer.elapsed_s();
      times.steps.push_back(now - times.total);
      times.total = now;
    }
    return times;
  }

  const Args& args_;
  const StateCopies& states_;
  double last_seconds_ = 0;
};

}  // namespace

std::unique_ptr<CallTimer> make_call_timer(const Target& target, const CallTimer::Args& args,
                                           const StateCopies& states) {
  if (target.is_cuda()) return make_graph_timer(args, states);
  return std::make_unique<StepTimer>(args, states);
}

void run_once(std::span<const StepCall> call, const CallTimer::Args& args) {
  const cuda::OneCall one;
  for (const StepCall& part : call) run_part(part, args);
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
