// Which contractions the tensor cores take, and how the operands of one lie in memory.
#pragma once

#include <array>
#include <optional>

#include "common/contraction_shape.h"
#include "cuda/product_view.h"
#include "cuda/tensor_core_rule.h"

namespace heddle::meta {

/// The type of the operands of sum(a * b) where mma.sync multiplies them: 16-bit floats added up in
/// f32, bytes added up in i32 (signed and not may be mixed: the type is that of the first), and f32
/// where the options allow to round it to tf32.
std::optional<DataType> tensor_core_operands(const Operation& op, bool allow_tf32);

/// The view of a stage that is a product of matrices only when several axes are taken as one (a
/// convolution), and large enough for the tiles of mma: a depthwise convolution is not.
std::optional<ContractionView> tensor_core_view(const ComputeDag& dag, int stage, bool allow_tf32);

bool has_tensor_cores(const Target& target);

/// Whether the group is a product that mma.sync takes whole.
bool feeds_tensor_cores(const ComputeDag& dag, const StageGroup& g, const Target& target);

/// A group that feeds_tensor_cores: the product of matrices that its anchor is.
class TensorCoreShape {
 public:
  TensorCoreShape(const ComputeDag& dag, const StageGroup& g);

  const ContractionShape& axes() const { return axes_; }
  /// Where several axes are taken as one; else each of rows, columns and depth is one axis.
  const std::optional<ContractionView>& view() const { return view_; }
  /// Of a view, where operands may be copied so that they lie along the depth.
  const std::optional<DepthInnermost>& innermost() const { return innermost_; }
  /// The same product of operands that were copied so.
  TensorCoreShape of_copies() const;

  int64_t pack() const { return pack_; }       ///< operands in a register of 32 bits
  int64_t mma_k() const { return 8 * pack_; }  ///< steps of the depth that one mma takes
  bool copies_operands() const { return of_copies_; }

  /// What the rule decides from.
  TensorCoreProblem problem(const Gpu& gpu) const;

  /// Where the stage of the sum has its rows and columns.
  int row_axis() const { return view_ ? static_cast<int>(view_->batch.size()) : axes_.m; }
  int col_axis() const { return view_ ? static_cast<int>(view_->batch.size()) + 1 : axes_.v; }

  /// How operand `which` (0: of the rows, 1: of the columns) lies, as the recipe's stages have it.
  struct Layout {
    int line_dim = -1, depth_dim = -1;  ///< its dimension of rows or columns, and of the depth
    int64_t vector = 1;  ///< elements that begin at a multiple of their number wherever they do
  };
  Layout layout(size_t which) const;
  /// Whether its elements lie side by side along the depth.
  bool lies_along_depth(size_t which) const;
  /// Whether cp.async cannot copy its tiles: single elements come by computed addresses.
  bool by_elements(size_t which) const;
  /// Whether an operand of bytes lies the other way than a fragment, in which four neighbours along
  /// the depth share a register: ldmatrix turns 16-bit elements only.
  bool turned(size_t which) const;

 private:
  const ViewOperand& view_operand(size_t which) const;
  const ComputeDag* dag_;
  const Operation* op_;
  int anchor_;
  ContractionShape axes_;
  std::optional<ContractionView> view_;
  std::optional<DepthInnermost> innermost_;
  int64_t pack_;
  bool of_copies_ = false;
};

}  // namespace heddle::meta
