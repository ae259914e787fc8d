#include "heddle/runtime/kernel.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "heddle/support/error.h"
#include "runtime/array/deferred.h"
#include "runtime/cuda/capture.h"
#include "runtime/cuda/executable.h"
#include "runtime/kernel/check_arguments.h"
#include "runtime/kernel/finite_report.h"
#include "runtime/kernel/prepared_store.h"
#include "runtime/machine/first_touch.h"
#include "support/out_of_memory.h"
#include "support/stack_array.h"

namespace heddle {
namespace {

// The results of `prepare` for one set of constant arrays.
struct Prepared {
  // The constants are kept alive, so that no other array can get the same address.
  std::vector<NDArray> constants;
  std::vector<NDArray> arrays;
  std::vector<NDArray> on_gpu;  // copies of constants that are on the CPU, for a kernel of a GPU
};
using PreparedRef = std::shared_ptr<const Prepared>;

// What one kernel, or several that share it, have prepared.
struct PreparedSets {
  std::mutex mutex;
  std::vector<PreparedRef> sets;  // most recently used first
  uint64_t refreshes = 0;

  PreparedRef find(const std::vector<NDArray>& constants) {
    auto same = [](const NDArray& a, const NDArray& b) { return a.address() == b.address(); };
    auto found = std::find_if(sets.begin(), sets.end(), [&](const PreparedRef& p) {
      return std::equal(constants.begin(), constants.end(), p->constants.begin(),
                        p->constants.end(), same);
    });
    if (found == sets.end()) return nullptr;
    std::rotate(sets.begin(), found, found + 1);
    return sets.front();
  }
};

// The number of sets of constants whose prepared arrays are kept, for callers that alternate
// between a few sets of weights.
constexpr size_t kPreparedSets = 4;

using Pointers = StackArray<void*, 32>;
using SizeValues = StackArray<int64_t, 8>;

}  // namespace

struct Kernel::Impl {
  std::shared_ptr<const KernelCode> code;
  std::shared_ptr<const cuda::Executable> cuda;  // set for kernels for a GPU
  std::vector<NDArray> bound;  // the constants that the kernel supplies, on the CPU
  std::mutex mutex;            // never held while code runs, which may wait for the thread pool
  std::shared_ptr<PreparedSets> prepared = std::make_shared<PreparedSets>();
  // The bound constants on each device where they were needed, by the index of the GPU.
  std::map<int, std::shared_ptr<const std::vector<NDArray>>> bound_on_gpu;
  uint64_t refreshes = 0;

  size_t num_args() const { return code->args.size() + bound.size(); }
  bool checks_finite() const { return code->finite.slots > 0; }

  /// The constants that the kernel supplies, copied to a GPU.
  std::shared_ptr<const std::vector<NDArray>> bound_on(Device device) {
    uint64_t refreshed = 0;
    {
      const std::lock_guard lock(mutex);
      const auto known = bound_on_gpu.find(device.index);
      if (known != bound_on_gpu.end()) return known->second;
      refreshed = refreshes;
    }
    auto copies = std::make_shared<std::vector<NDArray>>();
    for (const NDArray& a : bound) copies->push_back(a.to_device(device));
    const std::lock_guard lock(mutex);
    if (refreshes != refreshed) return copies;
    return bound_on_gpu.emplace(device.index, std::move(copies)).first->second;
  }

  bool has_prepare() const { return cuda ? cuda->has_prepare() : code->prepare != nullptr; }

  /// The persistent buffers for these constants, on the device where the kernel runs.
  PreparedRef prepare(std::span<const NDArray> arrays, Device device) {
    std::vector<NDArray> constants;
    for (size_t i = 0; i < arrays.size(); ++i) {
      if (code->args[i].constant) constants.push_back(arrays[i]);
    }
    PreparedSets& kept = *prepared;
    uint64_t refreshed = 0;
    {
      const std::lock_guard lock(kept.mutex);
      if (PreparedRef known = kept.find(constants)) return known;
      refreshed = kept.refreshes;
    }
    auto fresh = std::make_shared<Prepared>();
    fresh->constants = std::move(constants);
    for (const KernelArg& p : code->persistent) {
      fresh->arrays.push_back(NDArray::empty(p.shape, p.dtype, device));
    }
    run_prepare(*fresh, device);
    const std::lock_guard lock(kept.mutex);
    // Two simultaneous first calls both prepare, and one result is kept. If a refresh happened
    // meanwhile, the result serves this call alone.
    if (kept.refreshes != refreshed) return fresh;
    if (PreparedRef known = kept.find(fresh->constants)) return known;
    if (kept.sets.size() == kPreparedSets) kept.sets.pop_back();
    kept.sets.insert(kept.sets.begin(), fresh);
    return fresh;
  }

  void run_prepare(Prepared& p, Device device) {
    if (cuda) {
      // Launches name their buffers by position among all arguments. Those of prepare use constants
      // only.
      Pointers pointers(num_args() + p.arrays.size() + (checks_finite() ? 1 : 0));
      size_t next = 0;
      for (size_t i = 0; i < code->args.size(); ++i) {
        pointers[i] = nullptr;
        if (!code->args[i].constant) continue;
        NDArray constant = p.constants[next++].to_device(device);
        pointers[i] = constant.data();
        p.on_gpu.push_back(std::move(constant));
      }
      const auto here = bound_on(device);
      for (size_t i = 0; i < here->size(); ++i) {
        pointers[code->args.size() + i] = (*here)[i].data();
      }
      for (size_t i = 0; i < p.arrays.size(); ++i) {
        pointers[num_args() + i] = p.arrays[i].data();
      }
      // prepare does not check for NaN and infinity.
      if (checks_finite()) pointers[num_args() + p.arrays.size()] = nullptr;
      cuda->prepare(device.index, pointers.span());
      return;
    }
    prepare_on_cpu(p);
  }

  // Takes the result from the disk where an earlier process prepared the same constants with the
  // same code. The constants are in memory only while they are read.
  void prepare_on_cpu(Prepared& p) {
    // One thread makes them, but all threads read them, each its part: packed weights begin with
    // the columns that threads share out.
    for (const NDArray& array : p.arrays)
      internal::touch_by_parts(array.data(), static_cast<size_t>(array.bytes()));
    const std::string key =
        prepared_key(code->prepared_on_disk ? code->prepare_key : "", p.constants, bound);
    if (load_prepared(key, p.arrays)) return;
    {
      const internal::Pinned given(p.constants), own(bound);
      std::vector<void*> pointers;
      for (const NDArray& a : p.constants) pointers.push_back(a.address());
      for (const NDArray& a : bound) pointers.push_back(a.address());
      for (const NDArray& a : p.arrays) pointers.push_back(a.data());
      if (code->prepare(pointers.data()) != 0) {
        throw internal::OutOfMemory("out of memory while kernel '" + code->name +
                                    "' prepared its constants");
      }
    }
    store_prepared(key, p.arrays);
  }

  // The address that a call passes for an argument. Constants of a file are read where the call
  // needs them.
  static void* address_for(const KernelArg& arg, const NDArray& array) {
    if (arg.only_prepared) return array.address();
    return arg.output ? array.data() : internal::kept(array);
  }

  /// `report` is where a kernel that checks for NaN and infinity reports them. Other kernels ignore
  /// it.
  void call_cpu(std::span<const NDArray> arrays, Device device, void* report) {
    const size_t buffers = num_args() + code->persistent.size() + (checks_finite() ? 1 : 0);
    Pointers pointers(buffers + code->sizes.size());
    for (size_t i = 0; i < arrays.size(); ++i) pointers[i] = address_for(code->args[i], arrays[i]);
    for (size_t i = 0; i < bound.size(); ++i)
      pointers[arrays.size() + i] = address_for(code->bound[i].arg, bound[i]);
    if (!code->sizes.empty()) {
      read_sizes(code->name, code->sizes, code->args, arrays, [&](size_t i, int64_t value) {
        pointers[buffers + i] = reinterpret_cast<void*>(value);
      });
    }
    PreparedRef ready;
    if (code->prepare) {
      ready = prepare(arrays, device);
      for (size_t i = 0; i < code->persistent.size(); ++i) {
        pointers[num_args() + i] = ready->arrays[i].data();
      }
    }
    if (checks_finite()) pointers[num_args() + code->persistent.size()] = report;
    if (code->main(pointers.data()) != 0) {
      throw internal::OutOfMemory("out of memory for the temporaries of kernel '" + code->name +
                                  "'");
    }
  }

  void call_checked(std::span<const NDArray> arrays, Device device) {
    const NDArray report = make_finite_report(code->finite, device);
    call_cpu(arrays, device, report.data());
    throw_if_not_finite(*code, arrays, report);
  }

  void call_cuda(std::span<const NDArray> arrays, Device device) {
    if (device.is_cpu()) return call_staged(arrays);
    PreparedRef ready;
    if (cuda->has_prepare()) ready = prepare(arrays, device);
    launch(arrays, ready, device);
  }

  // A call with arrays on the CPU: copies the arrays to the GPU, runs, and copies the outputs back.
  void call_staged(std::span<const NDArray> arrays) {
    const Device device = Device::cuda();
    cuda::refuse_in_capture(device.index, "a call with arrays on the CPU");
    PreparedRef ready;
    if (cuda->has_prepare()) ready = prepare(arrays, device);
    std::vector<NDArray> staged;
    size_t constants = 0;
    for (size_t i = 0; i < arrays.size(); ++i) {
      const KernelArg& arg = code->args[i];
      if (arg.constant && ready) {
        staged.push_back(ready->on_gpu[constants++]);
      } else if (arg.output) {
        staged.push_back(NDArray::empty(arrays[i].shape(), arg.dtype, device));
      } else {
        staged.push_back(arrays[i].to_device(device));
      }
    }
    launch(staged, ready, device);
    for (size_t i = 0; i < arrays.size(); ++i) {
      if (code->args[i].output) arrays[i].copy_from(staged[i]);
    }
  }

  void launch(std::span<const NDArray> arrays, const PreparedRef& ready, Device device) {
    const size_t persistent = ready ? ready->arrays.size() : 0;
    if (checks_finite()) cuda::refuse_in_capture(device.index, "a check for NaN and infinity");
    const NDArray report = make_finite_report(code->finite, device);
    Pointers pointers(num_args() + persistent + (checks_finite() ? 1 : 0));
    if (checks_finite()) pointers[num_args() + persistent] = report.data();
    for (size_t i = 0; i < arrays.size(); ++i) pointers[i] = arrays[i].data();
    if (!bound.empty()) {
      const auto here = bound_on(device);
      for (size_t i = 0; i < here->size(); ++i) pointers[arrays.size() + i] = (*here)[i].data();
      cuda::keep_in_capture(device.index, *here);
    }
    for (size_t i = 0; i < persistent; ++i) pointers[num_args() + i] = ready->arrays[i].data();
    SizeValues sizes(code->sizes.size());
    if (!code->sizes.empty()) {
      read_sizes(code->name, code->sizes, code->args, arrays,
                 [&](size_t i, int64_t value) { sizes[i] = value; });
    }
    cuda->run(device.index, pointers.span(), sizes.span());
    cuda::keep_in_capture(device.index, arrays);
    if (ready) cuda::keep_in_capture(device.index, ready->arrays);
    if (checks_finite()) throw_if_not_finite(*code, arrays, report);
  }
};

Kernel::Kernel(KernelCode code) : impl_(std::make_shared<Impl>()) {
  if (code.cuda) {
    impl_->cuda = std::make_shared<const cuda::Executable>(
        code.cuda, code.name,
        code.args.size() + code.bound.size() + (code.finite.slots > 0 ? 1 : 0),
        code.persistent.size());
  }
  for (const BoundConstant& b : code.bound) impl_->bound.push_back(b.array);
  impl_->code = std::make_shared<const KernelCode>(std::move(code));
}

Kernel Kernel::clone() const {
  Kernel copy;
  copy.impl_ = std::make_shared<Impl>();
  copy.impl_->code = impl().code;
  copy.impl_->cuda = impl().cuda;
  copy.impl_->bound = impl().bound;
  return copy;
}

void Kernel::call(std::span<const NDArray> arrays) const {
  const KernelCode& code = *impl().code;
  const Device device = check_arguments(code.name, code.args, arrays, impl_->cuda != nullptr);
  check_apart(code.name, code.args, arrays, impl_->bound);
  if (code.before) code.before(arrays);
  if (impl_->cuda) return impl_->call_cuda(arrays, device);
  if (impl_->checks_finite()) return impl_->call_checked(arrays, device);
  impl_->call_cpu(arrays, device, nullptr);
}

Kernel::Impl& Kernel::impl() const {
  if (!impl_) throw_runtime_error("this kernel was never built");
  return *impl_;
}

void Kernel::prepare(std::span<const NDArray> arrays) const {
  const KernelCode& code = *impl().code;
  const Device device = check_constants(code.name, code.args, arrays, impl_->cuda != nullptr);
  const Device where = impl_->cuda && device.is_cpu() ? Device::cuda() : device;
  if (impl_->has_prepare()) {
    impl_->prepare(arrays, where);
  } else if (impl_->cuda && !code.bound.empty()) {
    impl_->bound_on(where);
  }
}

std::vector<NDArray> Kernel::prepared(std::span<const NDArray> arrays) const {
  const KernelCode& code = *impl().code;
  const Device device = check_constants(code.name, code.args, arrays, impl_->cuda != nullptr);
  if (impl_->cuda) return {};
  std::vector<NDArray> values = impl_->bound;
  if (!code.prepare) return values;
  const PreparedRef ready = impl_->prepare(arrays, device);
  values.insert(values.end(), ready->arrays.begin(), ready->arrays.end());
  return values;
}

void Kernel::prepare() const {
  const KernelCode& code = *impl().code;
  for (const KernelArg& arg : code.args) {
    if (!arg.constant) continue;
    throw_user_error(
        "kernel '" + code.name + "' does not have the values of its constant '" + arg.name + "'",
        {}, "pass the arrays to prepare, or declare it with constant(array)");
  }
  prepare(std::vector<NDArray>(code.args.size()));
}

bool Kernel::share_prepared(const Kernel& other) const {
  const KernelCode &mine = *impl().code, &code = *other.impl().code;
  if (impl_->prepared == other.impl_->prepared) return true;
  const auto same_array = [](const KernelArg& a, const KernelArg& b) {
    return a.dtype == b.dtype && a.shape == b.shape && a.constant == b.constant;
  };
  const auto same_address = [](const NDArray& a, const NDArray& b) {
    return a.address() == b.address();
  };
  if (mine.prepare == nullptr || code.prepare == nullptr || mine.prepare_key.empty() ||
      mine.prepare_key != code.prepare_key ||
      !std::ranges::equal(mine.args, code.args, same_array) ||
      !std::ranges::equal(mine.persistent, code.persistent, same_array) ||
      !std::ranges::equal(impl_->bound, other.impl_->bound, same_address))
    return false;
  impl_->prepared = other.impl_->prepared;
  return true;
}

void Kernel::refresh() const {
  {
    const std::lock_guard lock(impl().prepared->mutex);
    impl_->prepared->sets.clear();
    ++impl_->prepared->refreshes;
  }
  const std::lock_guard lock(impl_->mutex);
  impl_->bound_on_gpu.clear();
  ++impl().refreshes;
}

const std::string& Kernel::name() const { return impl().code->name; }
const std::vector<KernelArg>& Kernel::args() const { return impl().code->args; }

const std::vector<KernelSize>& Kernel::sizes() const { return impl().code->sizes; }
const std::vector<BoundConstant>& Kernel::bound() const { return impl().code->bound; }
const KernelWork& Kernel::work() const { return impl().code->work; }

const cuda::Program* Kernel::cuda_program() const { return impl().code->cuda.get(); }
bool Kernel::has_persistent() const { return impl().has_prepare(); }

int64_t Kernel::persistent_bytes() const {
  int64_t bytes = 0;
  for (const KernelArg& p : impl().code->persistent) {
    int64_t size = p.dtype.bytes();
    for (const int64_t extent : p.shape) size *= extent;
    bytes += size;
  }
  return bytes;
}

std::string Kernel::source(const std::string& form) const {
  const KernelCode& code = *impl().code;
  return code.source ? code.source(code.source_context.get(), form) : "";
}

}  // namespace heddle
