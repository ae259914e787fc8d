#include "heddle/runtime/kernel.h"

#include <algorithm>
#include <mutex>

#include "heddle/support/error.h"

namespace heddle {
namespace {

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string out = "{";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "}";
}

// What `prepare` made of one set of constant arrays.
struct Prepared {
  // Kept alive, so that no other array can come to lie at the same address.
  std::vector<NDArray> constants;
  std::vector<NDArray> arrays;
};

// The code is compiled on the promise that what it writes overlaps nothing else.
void check_overlap(const KernelCode& code, std::span<const NDArray> arrays) {
  auto begin = [](const NDArray& a) { return static_cast<const char*>(a.data()); };
  for (size_t o = 0; o < arrays.size(); ++o) {
    if (!code.args[o].output) continue;
    for (size_t i = 0; i < arrays.size(); ++i) {
      if (i == o || begin(arrays[o]) >= begin(arrays[i]) + arrays[i].bytes() ||
          begin(arrays[i]) >= begin(arrays[o]) + arrays[o].bytes()) {
        continue;
      }
      throw_runtime_error("arguments '" + code.args[o].name + "' and '" + code.args[i].name +
                              "' of kernel '" + code.name + "' overlap in memory",
                          {}, "give every output an array of its own");
    }
  }
}

void check_arguments(const KernelCode& code, std::span<const NDArray> arrays) {
  if (arrays.size() != code.args.size()) {
    throw_runtime_error("kernel '" + code.name + "' takes " + std::to_string(code.args.size()) +
                        " arguments, but " + std::to_string(arrays.size()) + " were given");
  }
  for (size_t i = 0; i < arrays.size(); ++i) {
    const KernelArg& want = code.args[i];
    const NDArray& got = arrays[i];
    auto what = [&] {
      return "argument " + std::to_string(i) + " ('" + want.name + "') of kernel '" + code.name +
             "' ";
    };
    if (!got.defined()) throw_runtime_error(what() + "is no array");
    if (got.dtype() != want.dtype) {
      throw_runtime_error(what() + "must be " + to_string(want.dtype) + ", but is " +
                          to_string(got.dtype()));
    }
    if (got.shape() != want.shape) {
      throw_runtime_error(what() + "must have shape " + shape_text(want.shape) + ", but has " +
                          shape_text(got.shape()));
    }
    if (reinterpret_cast<uintptr_t>(got.data()) % want.dtype.bytes() != 0) {
      throw_runtime_error(what() + "is not aligned to its element type");
    }
  }
  check_overlap(code, arrays);
}

}  // namespace

struct Kernel::Impl {
  KernelCode code;
  std::mutex mutex;
  std::shared_ptr<const Prepared> prepared;

  std::shared_ptr<const Prepared> prepare(std::span<const NDArray> arrays) {
    std::vector<NDArray> constants;
    std::vector<void*> pointers;
    for (size_t i = 0; i < arrays.size(); ++i) {
      if (!code.args[i].constant) continue;
      constants.push_back(arrays[i]);
      pointers.push_back(arrays[i].data());
    }
    std::lock_guard lock(mutex);
    auto same = [](const NDArray& a, const NDArray& b) { return a.data() == b.data(); };
    if (prepared && std::equal(constants.begin(), constants.end(), prepared->constants.begin(),
                               prepared->constants.end(), same)) {
      return prepared;
    }
    auto fresh = std::make_shared<Prepared>();
    fresh->constants = std::move(constants);
    for (const KernelArg& p : code.persistent) {
      fresh->arrays.push_back(NDArray::empty(p.shape, p.dtype));
      pointers.push_back(fresh->arrays.back().data());
    }
    if (code.prepare(pointers.data()) != 0) {
      throw_runtime_error("out of memory while kernel '" + code.name + "' prepared its constants");
    }
    prepared = fresh;
    return fresh;
  }
};

Kernel::Kernel(KernelCode code) : impl_(std::make_shared<Impl>()) { impl_->code = std::move(code); }

void Kernel::call(std::span<const NDArray> arrays) const {
  const KernelCode& code = impl().code;
  constexpr size_t kOnStack = 32;
  void* on_stack[kOnStack];
  std::vector<void*> on_heap;
  size_t total = code.args.size() + code.persistent.size();
  void** pointers = on_stack;
  if (total > kOnStack) {
    on_heap.resize(total);
    pointers = on_heap.data();
  }
  check_arguments(code, arrays);
  for (size_t i = 0; i < arrays.size(); ++i) pointers[i] = arrays[i].data();
  std::shared_ptr<const Prepared> prepared;
  if (code.prepare) {
    prepared = impl_->prepare(arrays);
    for (size_t i = 0; i < code.persistent.size(); ++i) {
      pointers[code.args.size() + i] = prepared->arrays[i].data();
    }
  }
  if (code.main(pointers) != 0) {
    throw_runtime_error("out of memory for the temporaries of kernel '" + code.name + "'");
  }
}

Kernel::Impl& Kernel::impl() const {
  if (!impl_) throw_runtime_error("this kernel was never built");
  return *impl_;
}

void Kernel::prepare(std::span<const NDArray> arrays) const {
  check_arguments(impl().code, arrays);
  if (impl().code.prepare) impl().prepare(arrays);
}

void Kernel::refresh() const {
  std::lock_guard lock(impl().mutex);
  impl().prepared = nullptr;
}

const std::string& Kernel::name() const { return impl().code.name; }
const std::vector<KernelArg>& Kernel::args() const { return impl().code.args; }

std::string Kernel::source(const std::string& form) const {
  const KernelCode& code = impl().code;
  return code.source ? code.source(code.source_context.get(), form) : "";
}

}  // namespace heddle
