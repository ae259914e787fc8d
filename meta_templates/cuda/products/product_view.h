// Contractions over several axes as one product of matrices: a convolution's rows are its pixels,
// its columns the filters, its depth the taps and channels (implicit GEMM; Chetlur et al. 2014,
// "cuDNN: Efficient primitives for deep learning", arXiv:1410.0759).
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "common/common.h"

namespace heddle::meta {

/// An axis of a contraction (by position), or a part of it: (index / divisor) % extent.
struct ViewDigit {
  int axis = -1;
  int64_t divisor = 1, extent = 1;
};

/// The layout in memory of an operand of the product.
struct ViewOperand {
  const Load* load = nullptr;
  bool along_depth = true;  ///< contiguous along the depth; else along its rows or columns
  int64_t vector = 1;       ///< number of contiguous elements at each multiple of this number
};

/// The digits of all axes by their role in the product, outermost first.
struct ContractionView {
  std::vector<ViewDigit> batch, rows, cols, depth;
  ViewOperand row_operand, col_operand;
  static int64_t points(const std::vector<ViewDigit>& digits) {
    int64_t n = 1;
    for (const ViewDigit& d : digits) n *= d.extent;
    return n;
  }
};

/// The product of matrices that contraction `op` is. Nothing where the stage is no sum of products
/// of two tensors, where an axis is of neither or the last one of both, or where one of the
/// matrices would have one row.
std::optional<ContractionView> contraction_view(const Operation& op);

/// A reduce axis (channels) that each operand has in a dimension of its own: copied so that this
/// one is innermost, operands lie along the depth.
struct DepthInnermost {
  int axis = -1;
  std::array<int, 2> dims{-1, -1};  ///< of the rows' operand, of the columns'
  std::array<bool, 2> copied{};     ///< which lie otherwise
  ContractionView view;             ///< of the copies
};

/// The longest such axis, unless operands lie so as they are, or vectors along it are no longer.
std::optional<DepthInnermost> depth_innermost(const Operation& op, const ContractionView& view);

}  // namespace heddle::meta
