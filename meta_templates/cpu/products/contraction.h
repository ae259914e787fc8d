// A contraction as the CPU recipe uses it: its axes, its operands and their places in memory.
#pragma once

#include <optional>
#include <vector>

#include "common/contraction_shape.h"
#include "cpu/products/narrow_product.h"

namespace heddle::meta::cpu {

/// The analysis of the contraction of a group. It refers to the group and its DAG, which must
/// outlive it.
struct Contraction {
  Contraction(const TemplateBuilder& t, const StageGroup& g);

  const StageGroup& group;
  const ComputeDag& dag;
  const Operation& op;
  int64_t lanes;  ///< lanes of a native vector of results
  ContractionShape shape;
  std::optional<NarrowProduct> narrow;
  /// The longest reduction that is a dimension of both operands: the channels of a convolution.
  std::optional<GroupedReduction> grouped;
  /// The image of a convolution has its channels in planes, and a copy with the channels innermost
  /// is possible.
  bool channels_in_planes = false;
  /// The numbers of products that one instruction adds up: 1, and those of the machine's dot
  /// instructions.
  std::vector<int64_t> dot_sizes{1};
  int longest = 0;  ///< the position of the longest reduce axis
  /// The position of the axis of blocks where columns lie in blocks of one vector (channels in
  /// blocks), which the vector axis is: columns go on from one block to the next. Else -1.
  int block_axis = -1;

  bool has_dot(int64_t size) const;
  /// Whether operands are 16-bit floats. Their conversions cost more than the multiply-adds that
  /// follow.
  bool halves() const { return narrow && !narrow->integers(); }
  bool has_epilogue() const { return group.output_stage != group.anchor; }
  /// Whether this is one of the products of a chain, through which blocks of rows go one after the
  /// other.
  bool chained() const { return group.in_chain || !group.chain.empty(); }
  /// The product of the extents of these axes of the result.
  int64_t extents(const std::vector<int>& axes) const;
  /// The number of columns, those of all blocks.
  int64_t cols() const { return shape.cols * (block_axis < 0 ? 1 : extents({block_axis})); }

  /// Whether `a` reads weights or values computed from weights alone, which are computed and packed
  /// once.
  bool is_constant(const Access& a) const;
  /// Whether the operand has memory of its own and is not just a change of indices.
  bool is_stored(const Access& a) const;
  int64_t bytes_a_batch(const Access& a) const;
  /// The distance in bytes between the rows of an operand that is read along the innermost
  /// reduction.
  int64_t bytes_a_row(const Access& a) const;
  /// The dimension along which the elements of `a` are contiguous, or -1.
  int contiguous_dim(const Access& a) const;
  /// The reduce axis along which the broadcast operand is contiguous, or null.
  const Axis* row_reduction() const;
  /// The position of the reduce axis that becomes the innermost one: the axis along which the
  /// broadcast operand is contiguous. With `channels_last` the operand is copied so that this is
  /// the axis of channels.
  int innermost_reduce(bool channels_last) const;

 private:
  /// Whether the broadcast operand has a run of the reduction innermost, such as the channels in a
  /// block.
  bool has_channels_in_blocks() const;
  /// Whether vectors lie as they are read, and the steps of `grouped` are further apart in them than those
  /// of another reduction: the images of a batch, over which the gradient of a filter is summed.
  bool reads_vectors_across() const;
  int find_block_axis() const;
  /// The distance in memory between neighbours along dimension `dim` of `a`, in elements. For a
  /// change of indices alone (a transposition), which has no memory of its own, the stage that it
  /// reads counts. -1 where the distance varies.
  int64_t stride(const Access& a, int dim) const;
};

}  // namespace heddle::meta::cpu
