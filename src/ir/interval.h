// Arithmetic on closed integer ranges. A bound that leaves i64 becomes infinite on that side, and
// no bound wraps.
#pragma once

#include <algorithm>

#include "heddle/ir/simplify.h"

namespace heddle {

inline constexpr Interval kUnbounded{};

inline Interval join(Interval a, Interval b) {
  return {std::min(a.min, b.min), std::max(a.max, b.max)};
}
/// The intersection of both ranges. It is empty (min > max) where they contradict each other, in
/// dead code.
inline Interval intersect(Interval a, Interval b) {
  return {std::max(a.min, b.min), std::min(a.max, b.max)};
}

Interval add(Interval a, Interval b);
Interval negate(Interval a);
Interval multiply(Interval a, int64_t k);
Interval multiply(Interval a, Interval b);
/// The four divisions. A divisor that may be zero or negative gives an unbounded result.
Interval floor_div(Interval a, Interval b);
Interval floor_mod(Interval a, Interval b);
Interval trunc_div(Interval a, Interval b);
Interval trunc_mod(Interval a, Interval b);

/// The range of all values of integer type `t` that fit i64.
Interval range_of_type(DataType t);

/// The range of `e` by its structure, without merging like terms first. It is meant for expressions
/// that are canonical already.
Interval structural_range(const Expr& e, const Ranges& ranges);

}  // namespace heddle
