// What selects the variant of a step for a call: in programs, in multi-kernels, in families of kernels
// and in exported libraries.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <utility>

#include "heddle/runtime/family_kernel.h"
#include "runtime/program/pick_table.h"

namespace heddle {

/// The first of these that gives an answer decides: a forced variant, a pick for the sizes of the
/// call that was remembered or measured, and a tree on the sizes. Calls may ask while others force
/// and pick.
class Selector {
 public:
  /// An empty tree names the first variant at all sizes.
  Selector(SizeTree tree = {}) : tree_(std::move(tree)) {
    if (tree_.empty()) tree_.emplace_back();
  }
  /// A copy has no picks.
  Selector(const Selector& other) { *this = other; }
  Selector& operator=(const Selector& other) {
    tree_ = other.tree_;
    forced_ = other.forced();
    forget();
    return *this;
  }

  size_t at(std::span<const int64_t> sizes) const {
    int variant = forced();
    if (variant < 0) variant = picked(sizes);
    return static_cast<size_t>(variant >= 0 ? variant : variant_at(tree_, sizes));
  }
  /// -1 ends it.
  void force(int variant) { forced_ = variant; }
  /// -1: none is.
  int forced() const { return forced_.load(std::memory_order_relaxed); }

  /// Where all extents are constant there are no sizes.
  void pick(std::span<const int64_t> sizes, int variant) { picks_.pick(sizes, variant); }
  /// What was picked for these sizes, also while a variant is forced; -1: nothing was.
  int picked(std::span<const int64_t> sizes) const { return picks_.at(sizes); }
  void forget() { picks_.clear(); }

  const SizeTree& tree() const { return tree_; }

 private:
  SizeTree tree_;
  std::atomic<int> forced_{-1};
  PickTable picks_;
};

}  // namespace heddle
