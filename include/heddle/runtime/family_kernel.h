// FamilyKernel: several kernels of one declaration over dimensions (dsl/dim.h) behind one callable.
// Each kernel is correct at every size. A tree on the sizes of a call says which one is fast there.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heddle/runtime/kernel.h"
#include "heddle/support/decision_tree.h"

namespace heddle {

/// A decision tree whose features are the sizes of a call, by their position, and whose answers are
/// variants.
using SizeTree = std::vector<TreeNode>;

/// The variant that `tree` names for these sizes.
inline int variant_at(const SizeTree& tree, std::span<const int64_t> sizes) {
  return walk(tree, sizes);
}

/// Several kernels for a range of sizes behind one callable. A tree on the sizes of a call picks
/// one.
class FamilyKernel {
 public:
  struct Variant {
    std::string name;
    Kernel kernel;
  };

  FamilyKernel() = default;
  /// The kernels must take the same arguments and the same sizes, of which there is at least one.
  /// Throws a User error where they do not, or where the tree names something that does not exist.
  /// Kernels that pack constants in the same way share them (Kernel::share_prepared).
  FamilyKernel(std::vector<Variant> variants, SizeTree tree);

  template <class... A>
  void operator()(const A&... arrays) const {
    const std::array<NDArray, sizeof...(A)> list = {NDArray(arrays)...};
    call(list);
  }
  /// Runs the variant for the sizes of the arrays. Throws what Kernel::call throws.
  void call(std::span<const NDArray> arrays) const;
  /// Computes what all kernels derive from constants, as Kernel::prepare does.
  void prepare(std::span<const NDArray> arrays) const;
  /// Measures the variant that runs for these arrays, as Kernel::profile does.
  Profile profile(const std::vector<NDArray>& arrays, double seconds = 1) const;

  /// The name of the variant that runs for these arrays. Throws what a call would throw.
  const std::string& picked(std::span<const NDArray> arrays) const;
  /// Makes all calls run the variant of this name; "" ends that. Throws a User error for an unknown
  /// name.
  void force(const std::string& variant) const;

  const std::vector<Variant>& variants() const;
  const SizeTree& tree() const;
  const std::vector<KernelArg>& args() const;
  const std::vector<KernelSize>& sizes() const;
  explicit operator bool() const { return static_cast<bool>(impl_); }

 private:
  struct Impl;
  Impl& impl() const;  // throws when there is none
  std::shared_ptr<Impl> impl_;
};

}  // namespace heddle
