#include "runtime/cuda/device_calls.h"

#include <algorithm>

#include "runtime/cuda/capture.h"

namespace heddle::cuda {
namespace {

constexpr size_t kGraphs = 4;

}  // namespace

void DeviceCalls::call(std::span<const KernelArg> args, std::span<const NDArray> arrays, Run run) {
  const std::lock_guard lock(mutex_);
  if (!arrays.empty() && arrays[0].device().is_cpu()) return run_staged(args, arrays, run);
  run_here(arrays, run);
}

void DeviceCalls::forget() {
  const std::lock_guard lock(mutex_);
  known_.clear();
  from_.clear();
  staged_.clear();
}

void DeviceCalls::launch_or_run(std::span<const NDArray> arrays, Run run) {
  std::vector<const void*> addresses;
  for (const NDArray& a : arrays) addresses.push_back(a.data());
  const auto at = std::find_if(known_.begin(), known_.end(),
                               [&](const Known& k) { return k.addresses == addresses; });
  if (at == known_.end()) {
    // The first call loads code and prepares constants. A graph is captured only for arrays that
    // are used again.
    run(arrays);
    known_.push_front({std::move(addresses), {}});
    if (known_.size() > kGraphs) known_.pop_back();
    return;
  }
  std::rotate(known_.begin(), at, at + 1);
  Known& known = known_.front();
  if (!known.graph) {
    known.graph = capture([&] { run(arrays); }, arrays[0].device().index);
  }
  known.graph->launch();
}

void DeviceCalls::run_here(std::span<const NDArray> arrays, Run run) {
  const int device = arrays[0].device().index;
  // While the caller captures a graph, the kernels become part of it.
  if (capture_of(device) != nullptr) return run(arrays);
  const Stream stream = Stream::current(device);
  if (last_) stream.wait(*last_);
  launch_or_run(arrays, run);
  if (!last_) last_.emplace(device);
  last_->record(stream);
}

void DeviceCalls::run_staged(std::span<const KernelArg> args, std::span<const NDArray> arrays,
                             Run run) {
  const Device device = Device::cuda();
  refuse_in_capture(device.index, "a call with arrays on the CPU");
  if (staged_.empty()) {
    // All calls share one set of device arrays, whatever arrays they pass, so that one graph serves
    // them.
    for (const NDArray& a : arrays) {
      staged_.push_back(NDArray::empty(a.shape(), a.dtype(), device));
    }
  }
  const auto same = [](const NDArray& a, const NDArray& b) { return a.data() == b.data(); };
  const bool again = std::equal(arrays.begin(), arrays.end(), from_.begin(), from_.end(), same);
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (!args[i].output && !(again && args[i].constant)) staged_[i].copy_from(arrays[i]);
  }
  from_.assign(arrays.begin(), arrays.end());
  run_here(staged_, run);
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (args[i].output) arrays[i].copy_from(staged_[i]);
  }
}

}  // namespace heddle::cuda
