#include "heddle/runtime/kernel.h"

#include <algorithm>

#include "heddle/support/error.h"
#include "runtime/array/deferred.h"
#include "runtime/cuda/capture.h"
#include "runtime/kernel/check_arguments.h"
#include "runtime/kernel/finite_report.h"
#include "runtime/kernel/kernel_impl.h"
#include "runtime/kernel/prepared_store.h"
#include "runtime/machine/first_touch.h"
#include "support/out_of_memory.h"
#include "support/stack_array.h"

namespace heddle {
namespace {

using Pointers = StackArray<void*, 32>;

}  // namespace

struct Kernel::Impl : KernelRuntime {};

KernelRuntime& runtime_of(const Kernel& kernel) { return kernel.impl(); }

PreparedRef PreparedSets::find(std::span<const KernelArg> args, std::span<const NDArray> arrays) {
  const PreparedRef* found = sets.find([&](const PreparedRef& p) {
    auto own = p->constants.begin();
    for (size_t i = 0; i < arrays.size(); ++i) {
      if (args[i].constant && (own++)->address() != arrays[i].address()) return false;
    }
    return true;
  });
  return found ? *found : nullptr;
}

std::shared_ptr<const std::vector<NDArray>> KernelRuntime::bound_on(Device device) {
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

PreparedRef KernelRuntime::prepare(std::span<const NDArray> arrays, Device device) {
  PreparedSets& kept = *prepared;
  uint64_t refreshed = 0;
  {
    const std::lock_guard lock(kept.mutex);
    if (PreparedRef known = kept.find(code->args, arrays)) return known;
    refreshed = kept.refreshes;
  }
  auto fresh = std::make_shared<Prepared>();
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (code->args[i].constant) fresh->constants.push_back(arrays[i]);
  }
  for (const KernelArg& p : code->persistent)
    fresh->arrays.push_back(NDArray::empty(p.shape, p.dtype, device));
  run_prepare(*fresh, device);
  const std::lock_guard lock(kept.mutex);
  // Two simultaneous first calls both prepare, and one result is kept. If a refresh happened
  // meanwhile, the result serves this call alone.
  if (kept.refreshes != refreshed) return fresh;
  if (PreparedRef known = kept.find(code->args, arrays)) return known;
  return kept.sets.add(fresh);
}

void KernelRuntime::run_prepare(Prepared& p, Device device) {
  if (!cuda) return prepare_on_cpu(p);
  // Launches name their buffers by position among all arguments. Those of prepare use constants
  // only.
  const size_t count = num_args() + p.arrays.size() + (checks_finite() ? 1 : 0);
  Pointers pointers(count);
  std::vector<NDArray> given;  // alive until the preparation is done
  for (size_t i = 0; i < code->args.size(); ++i) {
    pointers[i] = nullptr;
    if (!code->args[i].constant) continue;
    given.push_back(p.constants[given.size()].to_device(device));
    pointers[i] = given.back().data();
  }
  const auto here = bound_on(device);
  for (size_t i = 0; i < here->size(); ++i) pointers[code->args.size() + i] = (*here)[i].data();
  for (size_t i = 0; i < p.arrays.size(); ++i) pointers[num_args() + i] = p.arrays[i].data();
  if (checks_finite()) pointers[count - 1] = nullptr;  // prepare checks nothing
  cuda->prepare(device.index, pointers.span());
}

// Takes the result from the disk where an earlier process prepared the same constants with the
// same code. The constants are in memory only while they are read.
void KernelRuntime::prepare_on_cpu(Prepared& p) const {
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

// Most kernels for a CPU get no further than this: they have only arguments and sizes.
void KernelRuntime::run(void** parameters, std::span<const int64_t> sizes,
                        std::span<const NDArray> arrays, Device device, void* report,
                        char* scratch) {
  if (cuda) return run_on_gpu(parameters, sizes, arrays, device, report, scratch);
  void** next = parameters + code->args.size();
  PreparedRef ready;
  if (!bound.empty() || code->prepare != nullptr) {
    for (size_t i = 0; i < bound.size(); ++i) *next++ = address_for(code->bound[i].arg, bound[i]);
    if (code->prepare != nullptr) ready = prepare(arrays, device);
    for (size_t i = 0; i < code->persistent.size(); ++i) *next++ = ready->arrays[i].data();
  }
  if (checks_finite()) *next++ = report;
  for (const int64_t size : sizes) *next++ = reinterpret_cast<void*>(size);
  if (code->main(parameters) != 0) throw_out_of_memory();
}

void KernelRuntime::throw_out_of_memory() const {
  throw internal::OutOfMemory("out of memory for the temporaries of kernel '" + code->name + "'");
}

void KernelRuntime::run_on_gpu(void** parameters, std::span<const int64_t> sizes,
                               std::span<const NDArray> arrays, Device device, void* report,
                               char* scratch) {
  void** next = parameters + code->args.size();
  if (!bound.empty()) {
    const auto here = bound_on(device);
    for (const NDArray& a : *here) *next++ = a.data();
    cuda::keep_for_launches(device.index, here);
  }
  PreparedRef ready;
  if (has_prepare()) {
    ready = prepare(arrays, device);
    for (const NDArray& a : ready->arrays) *next++ = a.data();
  }
  if (checks_finite()) *next++ = report;
  cuda->run(device.index, {parameters, next}, sizes, scratch);
  if (ready) cuda::keep_for_launches(device.index, std::move(ready));
}

void KernelRuntime::call(std::span<const NDArray> arrays, std::span<const int64_t> sizes,
                         Device device) {
  if (code->before) code->before(arrays);
  Pointers parameters(num_parameters());
  for (size_t i = 0; i < arrays.size(); ++i) parameters[i] = address_for(code->args[i], arrays[i]);
  if (!checks_finite()) {
    run(parameters.data(), sizes, arrays, device);
  } else {
    if (cuda) cuda::refuse_in_capture(device.index, "a check for NaN and infinity");
    const NDArray report = make_finite_report(code->finite, device);
    run(parameters.data(), sizes, arrays, device, report.data());
    throw_if_not_finite(*code, arrays, report);
  }
  if (cuda) cuda::keep_in_capture(device.index, arrays);
}

static std::unique_ptr<cuda::DeviceCalls> calls_of(const cuda::Program& program) {
  const std::vector<size_t> in_part(program.in_part.begin(), program.in_part.end());
  return std::make_unique<cuda::DeviceCalls>(0, in_part);
}

Kernel::Kernel(KernelCode code) : impl_(std::make_shared<Impl>()) {
  if (code.cuda) {
    for (size_t i = 0; i < code.args.size(); ++i)
      code.args[i].only_prepared = code.args[i].constant && !cuda::calls_read(*code.cuda, i);
    impl_->cuda = std::make_shared<const cuda::Executable>(
        code.cuda, code.name,
        code.args.size() + code.bound.size() + (code.finite.slots > 0 ? 1 : 0),
        code.persistent.size());
    impl_->staged = calls_of(*code.cuda);
  }
  for (const BoundConstant& b : code.bound) impl_->bound.push_back(b.array);
  impl_->bound_memory = MemoryRanges(impl_->bound);
  impl_->code = std::make_shared<const KernelCode>(std::move(code));
}

Kernel Kernel::clone() const {
  Kernel copy;
  copy.impl_ = std::make_shared<Impl>();
  copy.impl_->code = impl().code;
  copy.impl_->cuda = impl().cuda;
  if (copy.impl_->cuda) copy.impl_->staged = calls_of(*impl().code->cuda);
  copy.impl_->bound = impl().bound;
  copy.impl_->bound_memory = impl().bound_memory;
  return copy;
}

void call_checked(const Kernel& kernel, std::span<const NDArray> arrays,
                  std::span<const int64_t> sizes) {
  runtime_of(kernel).call(arrays, sizes, arrays.empty() ? Device::cpu() : arrays[0].device());
}

void Kernel::call(std::span<const NDArray> arrays) const {
  const KernelCode& code = *impl().code;
  const Device device = check_arguments(code.name, code.args, arrays, impl_->cuda != nullptr);
  check_apart(code.name, code.args, arrays, impl_->bound_memory);
  StackArray<int64_t, 8> sizes(code.sizes.size());
  if (!code.sizes.empty()) {
    read_sizes(code.name, code.sizes, code.args, arrays,
               [&](size_t i, int64_t value) { sizes[i] = value; });
  }
  if (!impl_->cuda || device.is_cuda()) return impl_->call(arrays, sizes.span(), device);
  impl_->staged->call(code.args, arrays, [&](std::span<const NDArray> there) {
    impl_->call(there, sizes.span(), Device::cuda());
  });
}

Kernel::Impl& Kernel::impl() const {
  if (!impl_) throw_runtime_error("this kernel was never built");
  return *impl_;
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
  if (impl_->staged) impl_->staged->forget();
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
