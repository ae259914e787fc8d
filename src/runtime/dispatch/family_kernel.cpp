#include "heddle/runtime/family_kernel.h"

#include <atomic>

#include "heddle/support/error.h"
#include "support/edit_distance.h"
#include "support/stack_array.h"

namespace heddle {
namespace {

/// Where a size can be read: an extent of an argument that is factor * size + constant.
struct Source {
  size_t arg = 0, dim = 0;
  int64_t factor = 1, constant = 0;
};

std::vector<Source> sources_of(const Kernel& kernel) {
  std::vector<Source> sources(kernel.sizes().size());
  std::vector<bool> found(sources.size(), false);
  for (size_t i = 0; i < kernel.args().size(); ++i) {
    for (const SymbolicExtent& e : kernel.args()[i].symbolic) {
      if (e.terms.size() != 1) continue;
      const auto at = static_cast<size_t>(e.terms[0].size);
      if (found[at]) continue;
      found[at] = true;
      sources[at] = {i, static_cast<size_t>(e.dim), e.terms[0].factor, e.constant};
    }
  }
  return sources;
}

bool same_arguments(const Kernel& a, const Kernel& b) {
  if (a.args().size() != b.args().size() || a.sizes().size() != b.sizes().size()) return false;
  for (size_t i = 0; i < a.args().size(); ++i) {
    if (a.args()[i].dtype != b.args()[i].dtype || a.args()[i].shape != b.args()[i].shape)
      return false;
  }
  for (size_t i = 0; i < a.sizes().size(); ++i) {
    if (a.sizes()[i].lo != b.sizes()[i].lo || a.sizes()[i].hi != b.sizes()[i].hi) return false;
  }
  return true;
}

void check(const std::vector<FamilyKernel::Variant>& variants, const SizeTree& tree) {
  if (variants.empty()) throw_user_error("a family has no kernel", {}, "give one at least");
  const Kernel& first = variants[0].kernel;
  if (first.sizes().empty())
    throw_user_error("kernel '" + first.name() + "' takes constant shapes", {},
                     "declare it over a dimension: dim(name, lo, hi)");
  for (const FamilyKernel::Variant& v : variants) {
    if (!same_arguments(first, v.kernel))
      throw_user_error("the kernels '" + variants[0].name + "' and '" + v.name +
                       "' of a family take different arguments");
  }
  check_tree(tree, first.sizes().size(), variants.size());
}

}  // namespace

struct FamilyKernel::Impl {
  std::vector<Variant> variants;
  SizeTree tree;
  std::vector<Source> sources;
  std::atomic<int> forced{-1};
};

FamilyKernel::FamilyKernel(std::vector<Variant> variants, SizeTree tree) {
  check(variants, tree);
  impl_ = std::make_shared<Impl>();
  impl_->sources = sources_of(variants[0].kernel);
  // Kernels with the same form of packed weights have them in memory once.
  for (size_t i = 0; i < variants.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (variants[i].kernel.share_prepared(variants[j].kernel)) break;
    }
  }
  impl_->variants = std::move(variants);
  impl_->tree = std::move(tree);
}

const FamilyKernel::Impl& FamilyKernel::impl() const {
  if (!impl_) throw_runtime_error("this family of kernels was never built");
  return *impl_;
}

size_t FamilyKernel::index(std::span<const NDArray> arrays) const {
  const Impl& m = impl();
  if (const int forced = m.forced.load(std::memory_order_relaxed); forced >= 0)
    return static_cast<size_t>(forced);
  StackArray<int64_t, 8> sizes(m.sources.size());
  for (size_t i = 0; i < m.sources.size(); ++i) {
    const auto& [arg, dim, factor, constant] = m.sources[i];
    // Any kernel reports what is wrong with the arguments, so the first one is taken.
    if (arg >= arrays.size() || dim >= arrays[arg].shape().size()) return 0;
    sizes[i] = arrays[arg].shape()[dim] - constant;
    if (factor != 1) sizes[i] /= factor;
  }
  return static_cast<size_t>(variant_at(m.tree, sizes.span()));
}

const Kernel& FamilyKernel::pick(std::span<const NDArray> arrays) const {
  return impl().variants[index(arrays)].kernel;
}

const std::string& FamilyKernel::picked(std::span<const NDArray> arrays) const {
  return impl().variants[index(arrays)].name;
}

void FamilyKernel::force(const std::string& variant) const {
  int found = -1;
  std::vector<std::string> names;
  for (const Variant& v : impl().variants) {
    if (v.name == variant) found = static_cast<int>(names.size());
    names.push_back(v.name);
  }
  if (found < 0 && !variant.empty())
    throw_user_error("the family has no kernel '" + variant + "'", {},
                     did_you_mean(variant, names));
  impl_->forced = found;
}

const std::vector<FamilyKernel::Variant>& FamilyKernel::variants() const { return impl().variants; }
const SizeTree& FamilyKernel::tree() const { return impl().tree; }
const std::vector<KernelArg>& FamilyKernel::args() const {
  return impl().variants[0].kernel.args();
}
const std::vector<KernelSize>& FamilyKernel::sizes() const {
  return impl().variants[0].kernel.sizes();
}

}  // namespace heddle
