// Indices that are data. Their values are not known when code is made, so they are kept in range.
#pragma once

#include <cstdint>
#include <optional>

#include "heddle/ir/expr.h"

namespace heddle {

/// `index` as an i64 that counts from the end of the dimension where it is negative: -1 is the last
/// position.
Expr from_end(const Expr& index, int64_t extent);

/// The position that a read at `index` uses: as from_end gives it, and the nearest one of the
/// dimension where that is out of range.
Expr clamped_index(const Expr& index, int64_t extent);

/// A part of an expression that clamped_index made.
struct ClampedIndex {
  Expr position;  ///< before the clamp; what lies outside of [0, extent) is out of range
  int64_t extent = 0;
  bool counts_from_end = false;  ///< where it is negative, the extent has been added
};
/// `e` as clamped_index made it of an index that is data, or nothing. A bound that the type of the
/// index makes needless may be missing.
std::optional<ClampedIndex> as_clamped_index(const Expr& e);

}  // namespace heddle
