// A contraction as a CPU recipe sees it: its axes, its operands and how they lie in memory.
#pragma once

#include <optional>
#include <vector>

#include "common/contraction_shape.h"
#include "cpu/narrow_product.h"

namespace heddle::meta::cpu {

/// What is known of the contraction of a group. It lives no longer than the group and its DAG.
struct Contraction {
  Contraction(const TemplateBuilder& t, const StageGroup& g);

  const StageGroup& group;
  const ComputeDag& dag;
  const Operation& op;
  int64_t lanes;  ///< of a native vector of results
  ContractionShape shape;
  std::optional<NarrowProduct> narrow;
  /// The longest reduction that both operands have as a dimension: the channels of a convolution.
  std::optional<GroupedReduction> grouped;
  /// The image of a convolution has its channels in planes, and may be copied with them innermost.
  bool channels_in_planes = false;
  /// How many products one instruction adds up: 1, and what else the machine has.
  std::vector<int64_t> dot_sizes{1};
  int longest = 0;  ///< the position of the longest reduce axis

  bool has_dot(int64_t size) const;
  /// 16-bit floats: their conversions cost more than the multiply-adds that they are for.
  bool halves() const { return narrow && !narrow->integers(); }
  bool has_epilogue() const { return group.output_stage != group.anchor; }
  /// One of the products that blocks of rows go through, one after the other.
  bool chained() const { return group.in_chain || !group.chain.empty(); }
  /// The product of the extents of these axes of the result.
  int64_t extents(const std::vector<int>& axes) const;

  /// Weights, or what is made of them alone: computed and packed once.
  bool is_constant(const Access& a) const;
  /// It has memory of its own, and is no mere change of index.
  bool is_stored(const Access& a) const;
  int64_t bytes_a_batch(const Access& a) const;
  /// How far apart the rows of an operand lie that is read along the innermost reduction.
  int64_t bytes_a_row(const Access& a) const;
  /// The dimension along which the elements of `a` lie side by side, or -1.
  int contiguous_dim(const Access& a) const;
  /// The reduce axis along which the broadcast operand is contiguous, or null.
  const Axis* row_reduction() const;
  /// The position of the reduce axis that goes innermost: along which the broadcast operand is
  /// contiguous. `channels_last`: it is copied so that this is the axis of channels.
  int innermost_reduce(bool channels_last) const;

 private:
  /// How far apart in memory neighbours along dimension `dim` of `a` are, in elements. A mere
  /// change of index (a transposition) has no memory of its own: what it reads counts. -1: it
  /// varies.
  int64_t stride(const Access& a, int dim) const;
};

}  // namespace heddle::meta::cpu
