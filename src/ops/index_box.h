// Indices that are known with the declaration and name the places of a box.
#pragma once

#include <optional>
#include <vector>

#include "ops/common.h"

namespace heddle::ops::impl {

/// The places along a dimension: `count` of them from `first` on, `step` apart, in the order of an
/// axis of the updates. One place that no axis names has axis -1.
struct BoxSide {
  int dimension = 0;
  int64_t first = 0, step = 1, count = 1;
  int axis = -1;
};

/// Indices as a box: each side follows an axis of its own, and each axis of more than one element
/// has a side.
using IndexBox = std::vector<BoxSide>;

/// The box that the rows of `indices` name, of shape (extents of the updates ..., extents.size()).
/// Nothing where they are not known or name no box. Negative indices count from the end of
/// `extents`.
std::optional<IndexBox> box_of_rows(const Tensor& indices, const Dims& extents);

/// The same for indices along dimension `axis` of `extent`, alike along all their axes but that one.
/// Each of them is an update along an axis 0.
std::optional<BoxSide> side_along(const Tensor& indices, int axis, int64_t extent);

/// Whether a position is in the places of a side, and the index along the axis of the updates there.
Expr is_in(const BoxSide& side, const Expr& position);
Expr index_in(const BoxSide& side, const Expr& position);

}  // namespace heddle::ops::impl
