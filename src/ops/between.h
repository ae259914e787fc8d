// Positions between elements, for operators that read at positions that are data.
#pragma once

#include "ops/common.h"

namespace heddle::ops::impl {

/// A position that is data, as a number that can be converted to an integer: those far outside of
/// [0, extent) come near, and NaN becomes one of them.
inline Expr near_extent(const Expr& position, int64_t extent) {
  const DataType t = position.dtype();
  return fmax(fmin(position, make_const(t, static_cast<double>(extent) + 2)), make_const(t, -3));
}

inline Expr within(const Expr& index, int64_t extent) {
  return max(min(index, Expr(extent - 1)), Expr(0));
}

/// The value of x between elements of dimensions d and d + 1, zero outside: the four neighbours by
/// their distance. `at` has the indices of all dimensions; those at d are replaced.
inline Expr bilinear(const Tensor& x, std::vector<Expr> at, size_t d, const Expr& row,
                     const Expr& column) {
  const DataType t = row.dtype();
  const Expr one = make_const(t, 1);
  const Expr positions[] = {near_extent(row, x.extent(static_cast<int>(d))),
                            near_extent(column, x.extent(static_cast<int>(d) + 1))};
  Expr sum;
  for (const int64_t corner : {0, 1, 2, 3}) {
    Expr weight, inside;
    for (const size_t i : {0, 1}) {
      const int64_t step = i == 0 ? corner / 2 : corner % 2;
      const int64_t extent = x.extent(static_cast<int>(d + i));
      const Expr low = floor(positions[i]), fraction = positions[i] - low;
      const Expr index = cast(i64, low) + step;
      const Expr part = step == 0 ? one - fraction : fraction;
      const Expr in_range = heddle::logical_and(index >= 0, index < extent);
      at[d + i] = within(index, extent);
      weight = i == 0 ? part : weight * part;
      inside = i == 0 ? in_range : heddle::logical_and(inside, in_range);
    }
    const Expr value = select(inside, cast(t, x.at(at)) * weight, make_const(t, 0));
    sum = corner == 0 ? value : sum + value;
  }
  return sum;
}

}  // namespace heddle::ops::impl
