// The points of a stage that read a given element: the inverse of the index map of a read.
//
//   Y(n, k, y) reads P(n, c, y * 2 + r)      r in [0, 3), k and r are reduced or spatial axes
//
// Which (y, r) read element p of P? With p = 2 q + t, t in [0, 2): r = t + 2 m and y = q - m for m in
// [0, 2), where r < 3 and y is in range. So the sum over all that reads P(p) is, at position (q, t), a
// sum over m with affine indices. The unknowns are the axes of the stage, the known values are the
// indices; they are eliminated one by one, as in Hermite's form, by the step that leaves the fewest
// points to sum over:
//
//   a u = rhs                  u = rhs / a, where a divides rhs
//   a u + rest = rhs           the rest spans less than a: u = floordiv(rhs), rest = floormod(rhs)
//   u + rest = rhs             u = rhs - rest, and the rest is summed over
//   s u + d r = rhs            r = t + s m, u = q - d m, summed over m (gcd(s, d) = 1)
//
// A floordiv or floormod in an index is an unknown of its own: e = c q + m, 0 <= m < c. An index of
// another form (of data) stays as the condition that it equals the known value.
#pragma once

#include <vector>

#include "heddle/dsl/tensor.h"
#include "heddle/ir/simplify.h"

namespace heddle::autodiff {

/// A dimension over which the sum is declared. `place` is where a value of the indices lies in it.
struct Position {
  Var var;
  Expr extent;
  Expr place;          ///< in terms of Inverse::indices
  bool phase = false;  ///< whether it is the remainder of an index by a stride
  Expr place_in_phase =
      {};  ///< of the quotient: its place among those of one phase; null for others
};

/// A value summed over, in [0, extent).
struct Loop {
  Var var;
  Expr extent;
};

/// 0 <= value < extent must hold.
struct Bound {
  Expr value, extent;
};

struct Inverse {
  std::vector<Var> indices;         ///< the known indices, one for each dimension
  std::vector<Position> positions;  ///< as many as dimensions where `split` is false
  bool split = false;               ///< whether the positions are others than the indices
  std::vector<Expr> exists;         ///< conditions on the indices; elsewhere nothing reads
  std::vector<Loop> loops;
  std::vector<VarBinding> points;  ///< the axes of the stage, in terms of positions and loops
  std::vector<Bound> bounds;
  std::vector<Bound> elements;   ///< what quotients and phases that are an element's fulfil
  std::vector<Expr> conditions;  ///< of any other form
};

/// The ranges of the axes.
Ranges ranges_of(const std::vector<Axis>& axes);

/// Inverts the read of a tensor of shape `shape` at `indices` by a stage over `axes`. Of the elements,
/// those of `region` count, an interval a dimension; all where it is empty.
Inverse invert(const Shape& shape, const std::vector<Expr>& indices, const std::vector<Axis>& axes,
               const std::vector<Interval>& region = {});

}  // namespace heddle::autodiff
