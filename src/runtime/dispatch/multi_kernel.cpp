#include "heddle/runtime/multi_kernel.h"

#include <algorithm>

#include "heddle/support/error.h"
#include "runtime/dispatch/multi_kernel_impl.h"
#include "support/edit_distance.h"

namespace heddle {
namespace {

void check_variant(const std::string& kernel, const KernelVariant& v, const KernelVariant& first) {
  const auto fail = [&](const std::string& why) {
    throw_user_error("variant '" + v.name + "' of '" + kernel + "' " + why, {},
                     "variants take the same arguments, by position, name and type; only their "
                     "extents may differ");
  };
  if (static_cast<bool>(v.compile) == static_cast<bool>(v.function)) {
    fail("needs either code to compile or a function");
  }
  if (v.args.size() != first.args.size()) {
    fail("takes " + std::to_string(v.args.size()) + " arguments, and '" + first.name + "' takes " +
         std::to_string(first.args.size()));
  }
  for (size_t i = 0; i < v.args.size(); ++i) {
    const KernelArg &a = v.args[i], &b = first.args[i];
    if (a.dtype == b.dtype && a.shape.size() == b.shape.size() && a.output == b.output) continue;
    fail("takes another argument " + std::to_string(i) + " ('" + a.name + "') than '" + first.name +
         "'");
  }
}

bool same_shapes(const KernelVariant& a, const KernelVariant& b) {
  for (size_t i = 0; i < a.args.size(); ++i) {
    if (a.args[i].shape != b.args[i].shape) return false;
  }
  return true;
}

std::vector<KernelArg> union_of(const std::vector<KernelVariant>& variants) {
  std::vector<KernelArg> args = variants[0].args;
  for (const KernelVariant& v : variants) {
    for (size_t i = 0; i < args.size(); ++i) {
      args[i].constant = args[i].constant || v.args[i].constant;
      for (size_t d = 0; d < args[i].shape.size(); ++d) {
        if (args[i].shape[d] != v.args[i].shape[d]) args[i].shape[d] = -1;
      }
    }
  }
  return args;
}

std::vector<FreeExtent> free_extents(const std::vector<KernelArg>& args) {
  std::vector<FreeExtent> free;
  for (size_t i = 0; i < args.size(); ++i) {
    for (size_t d = 0; d < args[i].shape.size(); ++d) {
      if (args[i].shape[d] < 0) free.push_back({i, d});
    }
  }
  return free;
}

}  // namespace

MultiKernel::MultiKernel(MultiKernelFacts facts, std::vector<KernelVariant> variants,
                         PickOptions options) {
  if (variants.empty()) {
    throw_user_error("'" + facts.name + "' has no variant", {}, "give one at least");
  }
  for (size_t i = 0; i < variants.size(); ++i) {
    check_variant(facts.name, variants[i], variants[0]);
    for (size_t j = 0; j < i; ++j) {
      if (variants[j].name != variants[i].name) continue;
      throw_user_error("two variants of '" + facts.name + "' are named '" + variants[i].name + "'",
                       {}, "names are what force() and HEDDLE_PICK take: give each its own");
    }
  }
  impl_ = std::make_shared<Impl>();
  impl_->facts = std::move(facts);
  impl_->args = union_of(variants);
  impl_->free = free_extents(impl_->args);
  impl_->options = std::move(options);
  for (KernelVariant& v : variants) {
    const size_t own = impl_->variants.size();
    impl_->variants.push_back({std::move(v), own, {}});
    // Equal code is compiled, timed and picked once, under the first of its names.
    for (size_t j = 0; j < own; ++j) {
      const KernelVariant &a = impl_->variants[j].variant, &b = impl_->variants[own].variant;
      if (a.code.empty() || a.code != b.code || !same_shapes(a, b)) continue;
      impl_->variants[own].same_as = impl_->variants[j].same_as;
      break;
    }
  }
  impl_->read_forced();
}

MultiKernel::Impl& MultiKernel::impl() const {
  if (!impl_) throw_runtime_error("this multi-kernel was never built");
  return *impl_;
}

void MultiKernel::call(std::span<const NDArray> arrays) const {
  Impl& m = impl();
  const int picked = m.picked(arrays);
  auto variant = static_cast<size_t>(picked);
  if (picked < 0) m.settle(arrays, &variant);
  m.run(variant, arrays);
}

PickRow MultiKernel::pick(std::span<const NDArray> arrays) const {
  return impl().settle(arrays, nullptr);
}

std::vector<PickRow> MultiKernel::picks() const {
  const std::lock_guard lock(impl().rows_mutex);
  return impl_->rows;
}

void MultiKernel::force(const std::string& variant) const {
  Impl& m = impl();
  const int index = variant.empty() ? -1 : static_cast<int>(m.index_of(variant));
  const std::lock_guard lock(m.rows_mutex);
  m.selector.force(index);
  m.forced_by = "force()";
  m.selector.forget();
}

void MultiKernel::forget() const {
  const std::lock_guard lock(impl().rows_mutex);
  impl_->rows.clear();
  impl_->selector.forget();
}

const std::string& MultiKernel::name() const { return impl().facts.name; }
const std::vector<KernelArg>& MultiKernel::args() const { return impl().args; }

std::vector<std::string> MultiKernel::variants() const { return impl().names(); }

Kernel MultiKernel::kernel(const std::string& variant) const {
  const size_t index = impl().index_of(variant);
  if (impl_->variants[index].variant.function) {
    throw_user_error("variant '" + variant + "' of '" + name() + "' is a function, and no kernel");
  }
  return impl_->compiled(impl_->variants[index].same_as);
}

}  // namespace heddle
