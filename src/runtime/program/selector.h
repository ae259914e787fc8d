// What selects the variant of a step for a call: in programs, in families of kernels and in exported
// libraries.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <utility>

#include "heddle/runtime/family_kernel.h"

namespace heddle {

/// The first of these that gives an answer decides: a forced variant, a pick that was remembered or
/// measured, and a tree on the sizes of the call. Calls may ask while others force and pick.
class Selector {
 public:
  /// An empty tree names the first variant at all sizes.
  Selector(SizeTree tree = {}) : tree_(std::move(tree)) {
    if (tree_.empty()) tree_.emplace_back();
  }
  Selector(const Selector& other) { *this = other; }
  Selector& operator=(const Selector& other) {
    tree_ = other.tree_;
    forced_ = other.forced_.load();
    picked_ = other.picked_.load();
    return *this;
  }

  size_t at(std::span<const int64_t> sizes) const {
    int fixed = forced_.load(std::memory_order_relaxed);
    if (fixed < 0) fixed = picked_.load(std::memory_order_relaxed);
    return static_cast<size_t>(fixed >= 0 ? fixed : variant_at(tree_, sizes));
  }
  /// -1 ends it.
  void force(int variant) { forced_ = variant; }
  bool is_forced() const { return forced_.load(std::memory_order_relaxed) >= 0; }
  void pick(int variant) { picked_ = variant; }

  const SizeTree& tree() const { return tree_; }

 private:
  SizeTree tree_;
  std::atomic<int> forced_{-1}, picked_{-1};
};

}  // namespace heddle
