#include "heddle/runtime/kernel.h"

#include <algorithm>
#include <mutex>

#include "heddle/support/error.h"
#include "runtime/check_arguments.h"

namespace heddle {
namespace {

// What `prepare` made of one set of constant arrays.
struct Prepared {
  // Kept alive, so that no other array can come to lie at the same address.
  std::vector<NDArray> constants;
  std::vector<NDArray> arrays;
};
using PreparedRef = std::shared_ptr<const Prepared>;

// A caller that alternates between a few sets of weights finds each of them packed.
constexpr size_t kPreparedSets = 4;

}  // namespace

struct Kernel::Impl {
  std::shared_ptr<const KernelCode> code;
  std::mutex mutex;  // never held while code runs, which may wait for the thread pool
  std::vector<PreparedRef> prepared;  // the last used first
  uint64_t refreshes = 0;

  PreparedRef find(const std::vector<NDArray>& constants) {
    auto same = [](const NDArray& a, const NDArray& b) { return a.data() == b.data(); };
    auto found = std::find_if(prepared.begin(), prepared.end(), [&](const PreparedRef& p) {
      return std::equal(constants.begin(), constants.end(), p->constants.begin(),
                        p->constants.end(), same);
    });
    if (found == prepared.end()) return nullptr;
    std::rotate(prepared.begin(), found, found + 1);
    return prepared.front();
  }

  PreparedRef prepare(std::span<const NDArray> arrays) {
    std::vector<NDArray> constants;
    std::vector<void*> pointers;
    for (size_t i = 0; i < arrays.size(); ++i) {
      if (!code->args[i].constant) continue;
      constants.push_back(arrays[i]);
      pointers.push_back(arrays[i].data());
    }
    uint64_t refreshed = 0;
    {
      const std::lock_guard lock(mutex);
      if (PreparedRef known = find(constants)) return known;
      refreshed = refreshes;
    }
    auto fresh = std::make_shared<Prepared>();
    fresh->constants = std::move(constants);
    for (const KernelArg& p : code->persistent) {
      fresh->arrays.push_back(NDArray::empty(p.shape, p.dtype));
      pointers.push_back(fresh->arrays.back().data());
    }
    if (code->prepare(pointers.data()) != 0) {
      throw_runtime_error("out of memory while kernel '" + code->name + "' prepared its constants");
    }
    const std::lock_guard lock(mutex);
    // Two first calls at once prepare twice, and keep one. What a refresh overtook serves this call
    // alone.
    if (refreshes != refreshed) return fresh;
    if (PreparedRef known = find(fresh->constants)) return known;
    if (prepared.size() == kPreparedSets) prepared.pop_back();
    prepared.insert(prepared.begin(), fresh);
    return fresh;
  }
};

Kernel::Kernel(KernelCode code) : impl_(std::make_shared<Impl>()) {
  impl_->code = std::make_shared<const KernelCode>(std::move(code));
}

Kernel Kernel::clone() const {
  Kernel copy;
  copy.impl_ = std::make_shared<Impl>();
  copy.impl_->code = impl().code;
  return copy;
}

void Kernel::call(std::span<const NDArray> arrays) const {
  const KernelCode& code = *impl().code;
  check_arguments(code.name, code.args, arrays);
  constexpr size_t kOnStack = 32;
  void* on_stack[kOnStack];
  std::vector<void*> on_heap;
  size_t total = code.args.size() + code.persistent.size();
  void** pointers = on_stack;
  if (total > kOnStack) {
    on_heap.resize(total);
    pointers = on_heap.data();
  }
  for (size_t i = 0; i < arrays.size(); ++i) pointers[i] = arrays[i].data();
  PreparedRef prepared;
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
  const KernelCode& code = *impl().code;
  check_arguments(code.name, code.args, arrays);
  if (code.prepare) impl().prepare(arrays);
}

void Kernel::refresh() const {
  std::lock_guard lock(impl().mutex);
  impl().prepared.clear();
  ++impl().refreshes;
}

const std::string& Kernel::name() const { return impl().code->name; }
const std::vector<KernelArg>& Kernel::args() const { return impl().code->args; }

std::string Kernel::source(const std::string& form) const {
  const KernelCode& code = *impl().code;
  return code.source ? code.source(code.source_context.get(), form) : "";
}

}  // namespace heddle
