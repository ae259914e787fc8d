// The contractions that matrix units compute, and the layout of their operands in memory.
#pragma once

#include <array>
#include <optional>

#include "common/contraction_shape.h"
#include "cuda/products/product_view.h"
#include "cuda/products/tensor_core_rule.h"

namespace heddle::meta {

/// The type of the operands of sum(a * b) where mma.sync multiplies them: 16-bit floats added up in
/// f32, 8-bit floats added up in f32 (the two formats may be mixed: the type is that of the first),
/// bytes added up in i32 (signed and unsigned may be mixed likewise), and f32 where the declaration
/// rounds both factors to tf32 or the options allow that.
std::optional<DataType> tensor_core_operands(const Operation& op, bool allow_tf32);

/// The view of a stage that is a product of matrices only when several axes are taken as one (a
/// convolution), and that is large enough for the tiles of mma. A depthwise convolution is not.
std::optional<ContractionView> tensor_core_view(const ComputeDag& dag, int stage, bool allow_tf32);

bool has_tensor_cores(const Target& target);

/// Whether the group is a product that mma.sync computes as a whole.
bool feeds_tensor_cores(const ComputeDag& dag, const StageGroup& g, const Target& target);

/// The product of matrices of the anchor of a group for which feeds_tensor_cores holds.
class TensorCoreShape {
 public:
  TensorCoreShape(const ComputeDag& dag, const StageGroup& g);

  const ContractionShape& axes() const { return axes_; }
  /// The view, where several axes are taken as one. Without it each of rows, columns and depth is
  /// one axis.
  const std::optional<ContractionView>& view() const { return view_; }
  /// The operands of a view that may be copied so that they are contiguous along the depth.
  const std::optional<DepthInnermost>& innermost() const { return innermost_; }
  /// The same product with operands that were copied so.
  TensorCoreShape of_copies() const;
  /// The transposed product, B^T * A^T: its rows are the columns of this one, which has no view. The results
  /// lie as they do.
  TensorCoreShape exchanged() const;

  int64_t pack() const { return pack_; }  ///< elements of an operand in a register of 32 bits
  int64_t mma_k() const { return mma::depth(pack_); }  ///< steps of the depth that one mma takes
  bool copies_operands() const { return of_copies_; }

  /// The stages that the operands of rows and columns are.
  std::array<int, 2> producers() const;

  /// The facts that the rule uses.
  TensorCoreProblem problem(const Gpu& gpu, const GpuConstants& constants) const;

  bool is_exchanged() const { return exchanged_; }

  /// The positions of rows and columns among the axes of the sum.
  int row_axis() const { return view_ ? static_cast<int>(view_->batch.size()) : axes_.m; }
  int col_axis() const { return view_ ? static_cast<int>(view_->batch.size()) + 1 : axes_.v; }

  /// The layout of operand `which` (0: of the rows, 1: of the columns) in the stages of the recipe.
  struct Layout {
    int line_dim = -1, depth_dim = -1;  ///< its dimension of rows or columns, and of the depth
    int64_t vector = 1;  ///< number of contiguous elements at each multiple of this number
  };
  Layout layout(size_t which) const;
  /// Whether its elements are contiguous along the depth.
  bool lies_along_depth(size_t which) const;
  /// Whether cp.async cannot copy its tiles, because single elements have computed addresses.
  bool by_elements(size_t which) const;
  /// Whether an operand of bytes is transposed relative to a fragment, in which four neighbours
  /// along the depth share a register. ldmatrix transposes 16-bit elements only.
  bool turned(size_t which) const;

 private:
  const ViewOperand& view_operand(size_t which) const;
  int64_t boxed_bytes() const;
  const ComputeDag* dag_;
  const Operation* op_;
  int anchor_, output_;
  ContractionShape axes_;
  std::optional<ContractionView> view_;
  std::optional<DepthInnermost> innermost_;
  bool allow_tf32_;
  int64_t pack_;
  bool slow_results_;
  bool of_copies_ = false, exchanged_ = false;
};

}  // namespace heddle::meta
