// The parts that a split of an axis leaves: full tiles, and a tail whose length may not be
// constant.
//
//   if (o < n / 8) { body, i in 0..8 } else { body, i in 0..n % 8 }      where i is unrolled
//   body, i in 0..min(8, n - o*8)                                        where it is not
//
// In: the splits whose outer loop has just got a value, and what is inside of it, as a function
// that emits it for what is known. Out: that, once for each case, under the condition of the case.
// A case decides how far the inner loop runs (AxisScope::run_part) before it is emitted, and is
// forgotten behind it. Loops that are unrolled or vectorized below it have constant extents in each
// case.
#pragma once

#include <vector>

#include "heddle/support/function_ref.h"
#include "lower/nest/axis_scope.h"

namespace heddle::lowering {

class Tails {
 public:
  /// `masks`: see NestOptions.
  Tails(const StageGraph& graph, AxisScope& axes, bool masks);
  /// `body` for all cases of the axes `splits`, which loop `at` has given an outer part.
  Stmt cases(const LoopPlace& at, const std::vector<int>& splits, FunctionRef<Stmt()> body) {
    return cases_from(0, at, splits, body);
  }

 private:
  /// Emits the body for `extent` iterations of the inner loop from `begin` (null: 0).
  using Part = FunctionRef<Stmt(const Expr& begin, const Expr& extent)>;
  struct Split {
    const AxisState& axis;
    Expr whole;    ///< its number of iterations
    Expr outer;    ///< the value of its outer loop
    Expr mains;    ///< the number of full iterations of that
    Expr rest;     ///< the iterations of the axis after these
    Expr is_main;  ///< outer < mains
  };
  Stmt cases_from(size_t i, const LoopPlace& at, const std::vector<int>& splits,
                  FunctionRef<Stmt()> body);
  Stmt split(const LoopPlace& at, int id, Part part);
  // The cases of an axis whose length depends on sizes, and of one whose length is a constant.
  // `region`: whether regions of stages inside span the inner loop.
  Stmt sized_cases(const LoopPlace& at, const Split& split, bool region, Part part);
  Stmt constant_cases(const Split& split, Part part);
  // How many copies the tails of splits inside loop `at` make of what is inside of all of them.
  int64_t copies_inside(const LoopPlace& at) const;
  // The remainder of an axis of varying length beyond its full tiles. `tiles`: those inside are as
  // long as it. `copies`: of each part. Null where none is cut.
  Stmt cut_tails(const Split& split, bool tiles, int64_t copies, Part part);
  // The same in whole vectors, whose lanes beyond the axis are left out.
  Stmt masked_tails(const Split& split, Part part);
  // Whether loops below `id` need a constant extent for their annotation to take effect.
  bool needs_const(int id) const;

  const StageGraph& graph_;
  const ScheduleState& s_;
  AxisScope& axes_;
  const bool masks_;
};

}  // namespace heddle::lowering
