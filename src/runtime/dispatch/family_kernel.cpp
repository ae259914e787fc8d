#include "heddle/runtime/family_kernel.h"

#include "heddle/support/error.h"
#include "runtime/program/program.h"
#include "support/edit_distance.h"

namespace heddle {
namespace {

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

std::vector<Kernel> kernels_of(const std::vector<FamilyKernel::Variant>& variants) {
  std::vector<Kernel> kernels;
  for (const FamilyKernel::Variant& v : variants) kernels.push_back(v.kernel);
  return kernels;
}

}  // namespace

struct FamilyKernel::Impl {
  Impl(std::vector<Variant> kernels, SizeTree tree)
      : variants(std::move(kernels)), program(one_step(kernels_of(variants), std::move(tree))) {}

  std::vector<Variant> variants;
  Program program;
};

FamilyKernel::FamilyKernel(std::vector<Variant> variants, SizeTree tree) {
  check(variants, tree);
  impl_ = std::make_shared<Impl>(std::move(variants), std::move(tree));
}

FamilyKernel::Impl& FamilyKernel::impl() const {
  if (!impl_) throw_runtime_error("this family of kernels was never built");
  return *impl_;
}

void FamilyKernel::call(std::span<const NDArray> arrays) const { impl().program.call(arrays); }
void FamilyKernel::prepare(std::span<const NDArray> arrays) const {
  impl().program.prepare(arrays);
}
Profile FamilyKernel::profile(const std::vector<NDArray>& arrays, double seconds) const {
  return impl().program.profile(arrays, seconds);
}

const std::string& FamilyKernel::picked(std::span<const NDArray> arrays) const {
  Program& program = impl().program;
  return impl_->variants[program.parts().steps[0].selector.at(program.sizes_of(arrays))].name;
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
  impl_->program.force(found);
}

const std::vector<FamilyKernel::Variant>& FamilyKernel::variants() const { return impl().variants; }
const SizeTree& FamilyKernel::tree() const {
  return impl().program.parts().steps[0].selector.tree();
}
const std::vector<KernelArg>& FamilyKernel::args() const { return impl().program.parts().args; }
const std::vector<KernelSize>& FamilyKernel::sizes() const { return impl().program.parts().sizes; }

}  // namespace heddle
