// What is summed over the points that read an element: a value, the values that its loops take, and
// the conditions under which a point is one.
#pragma once

#include <vector>

#include "autodiff/inverse.h"
#include "heddle/ir/simplify.h"

namespace heddle::autodiff {

class Summation {
 public:
  /// `value`, in terms of the axes of the stage, in the inverse of its read.
  Summation(Inverse inverse, const Expr& value);

  /// Drops what always holds, and cuts loops to what their conditions leave. False where nothing is
  /// left to sum.
  bool narrow();
  /// Gives a position or a loop one value; it is one no longer.
  void fix(const Var& v, int64_t value);
  /// Where all phases are fixed: cuts quotients to those of elements.
  void keep_elements();
  /// How many points are summed at each position; -1 where that is not known.
  int64_t points() const;
  /// All conditions that are not proved.
  std::vector<Expr> open_conditions() const;
  /// The value where the conditions hold, else 0.
  Expr guarded_value() const;

  Inverse inverse;
  Expr value;
  std::vector<Expr> conditions;
  Ranges ranges;

 private:
  void set_range(const Var& v, const Expr& extent);
  void substitute_all(const std::vector<VarBinding>& by);
  bool ranges_over(const Bound& b) const;
  bool keep_open();
  bool cut(size_t i);
};

/// The values of `v` for which `condition` may hold, where that is an order of affine forms of `v`
/// alone; else all.
Interval allowed_values(const Expr& condition, const Var& v);

/// `value` where the conditions hold, else 0. Those on data are tested where the others hold, because
/// they may read out of bounds elsewhere.
Expr guarded(const std::vector<Expr>& conditions, const Expr& value);

}  // namespace heddle::autodiff
