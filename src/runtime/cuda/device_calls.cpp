#include "runtime/cuda/device_calls.h"

#include <algorithm>

#include "runtime/cuda/callers_capture.h"
#include "runtime/cuda/capture.h"

namespace heddle::cuda {
namespace {

/// What a graph depends on.
std::vector<int64_t> key_of(std::span<const KernelArg> args, std::span<const NDArray> arrays) {
  std::vector<int64_t> key;
  for (size_t i = 0; i < arrays.size(); ++i) {
    key.push_back(reinterpret_cast<intptr_t>(arrays[i].data()));
    if (args[i].symbolic.empty()) continue;
    key.insert(key.end(), arrays[i].shape().begin(), arrays[i].shape().end());
  }
  return key;
}

}  // namespace

void DeviceCalls::call(Args args, std::span<const NDArray> arrays, Run run, bool graphs) {
  const std::lock_guard lock(mutex_);
  graphs_ = graphs;
  if (!arrays.empty() && arrays[0].device().is_cpu()) return run_staged(args, arrays, run);
  run_here(args, arrays, run);
}

void DeviceCalls::forget() {
  const std::lock_guard lock(mutex_);
  known_.clear();
  expected_.reset();
  updated_graphs_.forget();
  constants_.clear();
  staged_.clear();
  room_.clear();
}

void DeviceCalls::expect(Args args, std::span<const NDArray> arrays, Run run) {
  const std::lock_guard lock(mutex_);
  if (most_ == 0 || arrays.empty() || arrays[0].device().is_cpu()) return;
  const int device = arrays[0].device().index;
  if (capture_of(device) != nullptr || caller_captures(device)) return;
  std::vector<int64_t> key = key_of(args, arrays);
  // A call that has come before has a graph of its own.
  if (known_.find([&](const Known& k) { return k.key == key; })) return;
  LaunchRecord record = launches_of(key, arrays, run);
  updated_graphs_.update(device_state(device), record);
  expected_.emplace(current_stream(device), std::move(key), std::move(record));
}

/// The launches of a call: those that were announced, or recorded now.
LaunchRecord DeviceCalls::launches_of(const std::vector<int64_t>& key,
                                      std::span<const NDArray> arrays, Run run) {
  const int device = arrays[0].device().index;
  if (expected_ && expected_->stream == current_stream(device) && expected_->key == key) {
    LaunchRecord record = std::move(expected_->record);
    expected_.reset();
    return record;
  }
  return record_launches([&] { run(arrays); }, device);
}

void DeviceCalls::launch_or_run(Args args, std::span<const NDArray> arrays, Run run) {
  if (most_ == 0 || !graphs_) return run(arrays);
  std::vector<int64_t> key = key_of(args, arrays);
  Known* known = known_.find([&](const Known& k) { return k.key == key; });
  if (!known) {
    // A graph of its own is captured only for a call that comes again.
    const int device = arrays[0].device().index;
    updated_graphs_.run(device_state(device), launches_of(key, arrays, run));
    known_.add({std::move(key), {}});
    return;
  }
  if (!known->graph) known->graph = capture([&] { run(arrays); }, arrays[0].device().index);
  known->graph->launch();
}

void DeviceCalls::run_here(Args args, std::span<const NDArray> arrays, Run run) {
  const int device = arrays[0].device().index;
  // While a graph is captured, the kernels become part of it. A caller's own capture can neither
  // wait for the last call nor give later calls an event to wait for.
  if (capture_of(device) != nullptr || caller_captures(device)) return run(arrays);
  const Stream stream = Stream::current(device);
  if (last_) stream.wait(*last_);
  launch_or_run(args, arrays, run);
  if (!last_) last_.emplace(device);
  last_->record(stream);
}

/// All calls share one set of device arrays, whatever arrays they pass, so that one graph serves
/// them. Where a call needs more room than all before it, the room at least doubles. What is prepared
/// of a constant is found by its address, so each constant has memory of its own.
void DeviceCalls::stage(Args args, std::span<const NDArray> arrays, Device device) {
  room_.resize(arrays.size());
  staged_.resize(arrays.size());
  constants_.resize(arrays.size());
  for (size_t i = 0; i < arrays.size(); ++i) {
    const NDArray& a = arrays[i];
    if (args[i].constant) {
      if (constants_[i].defined() && constants_[i].address() == a.address()) continue;
      staged_[i] = a.to_device(device);
      constants_[i] = a;
      continue;
    }
    if (staged_[i].defined() && staged_[i].shape() == a.shape()) continue;
    if (a.bytes() == 0) {
      staged_[i] = NDArray::empty(a.shape(), a.dtype(), device);
      continue;
    }
    if (!room_[i].defined() || room_[i].bytes() < a.bytes()) {
      const int64_t before = room_[i].defined() ? room_[i].bytes() : 0;
      room_[i] = NDArray::empty({std::max(a.bytes(), 2 * before)}, u8, device);
    }
    staged_[i] = NDArray::wrap(room_[i].data(), a.shape(), a.dtype(), device);
  }
}

void DeviceCalls::run_staged(Args args, std::span<const NDArray> arrays, Run run) {
  const Device device = Device::cuda();
  refuse_in_capture(device.index, "a call with arrays on the CPU");
  stage(args, arrays, device);
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (!args[i].output && !args[i].constant) staged_[i].copy_from(arrays[i]);
  }
  for (const size_t i : updated_) {
    if (args[i].output) staged_[i].copy_from(arrays[i]);
  }
  run_here(args, staged_, run);
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (args[i].output) arrays[i].copy_from(staged_[i]);
  }
  for (const size_t i : updated_) {
    if (!args[i].output) arrays[i].copy_from(staged_[i]);
  }
}

}  // namespace heddle::cuda
