// The order of values, and that of long rows.
#pragma once

#include "heddle/ops/sort.h"
#include "ops/common.h"

namespace heddle::ops::impl {

/// Whether `theirs` comes before `mine`. `tie` tells it of equal ones. NaN is equal to itself, and larger
/// than all numbers.
inline Expr is_before(const Expr& theirs, const Expr& mine, const Expr& tie, bool largest) {
  using heddle::logical_and, heddle::logical_or;
  const Expr before = largest ? theirs > mine : theirs < mine;
  const Expr of_numbers = logical_or(before, logical_and(theirs == mine, tie));
  if (!mine.dtype().is_float()) return of_numbers;
  const Expr nan = heddle::isnan(mine), also = heddle::isnan(theirs);
  if (largest) return select(nan, logical_and(also, tie), logical_or(also, of_numbers));
  return select(nan, logical_or(!also, tie), of_numbers);
}

/// The first `k` of each row of x (rows, n) in descending (`largest`) or ascending order, in time n log(n)^2, or
/// n log(k)^2 where k is a small part of n.
Sorted sorted_rows(const Call& call, const Tensor& x, int64_t k, bool largest);

/// The same for a few, one after the other.
Sorted best_rows(const Call& call, const Tensor& x, int64_t k, bool largest);
/// Whether that takes less time for `k` of `n`.
bool is_few(int64_t k, int64_t n);

}  // namespace heddle::ops::impl
