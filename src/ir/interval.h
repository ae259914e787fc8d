// Arithmetic on closed integer ranges. Whatever leaves i64 becomes unbounded on that side; nothing
// ever wraps.
#pragma once

#include <algorithm>

#include "heddle/ir/simplify.h"

namespace heddle {

inline constexpr Interval kUnbounded{};

inline Interval join(Interval a, Interval b) {
  return {std::min(a.min, b.min), std::max(a.max, b.max)};
}
/// Both ranges hold. May be empty (min > max) when they contradict each other: dead code.
inline Interval intersect(Interval a, Interval b) {
  return {std::max(a.min, b.min), std::min(a.max, b.max)};
}

Interval add(Interval a, Interval b);
Interval negate(Interval a);
Interval multiply(Interval a, int64_t k);
Interval multiply(Interval a, Interval b);
/// The four divisions: a divisor that may be zero or negative gives an unbounded result.
Interval floor_div(Interval a, Interval b);
Interval floor_mod(Interval a, Interval b);
Interval trunc_div(Interval a, Interval b);
Interval trunc_mod(Interval a, Interval b);

/// Every value of integer type `t` that fits i64.
Interval range_of_type(DataType t);

/// The range of `e` by its structure, without gathering like terms first: for expressions that are
/// canonical already.
Interval structural_range(const Expr& e, const Ranges& ranges);

}  // namespace heddle
