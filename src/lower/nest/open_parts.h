// Axes of a stage in terms of loops that are not theirs alone: the fusion of several, or what a
// known part of an axis leaves of it. An index that puts such axes together again,
//
//   for f in 0..h*w { .. x[(f / w)*w + f % w] .. }      is as exact as f,
//
// whereas f / w and f % w, each in its own interval, would not be.
//
// In: the stage and what is known of its axes. Out: intervals of indices. The loops that are not
// open yet have variables of their own, which are in the SymEnv that is given, and whose ranges
// hold to the end of the OpenLoops::Scope around.
#pragma once

#include <map>
#include <vector>

#include "lower/nest/axis_scope.h"
#include "lower/nest/sym_interval.h"

namespace heddle::lowering {

class OpenParts {
 public:
  OpenParts(const StageGraph& graph, AxisScope& axes, int stage, SymEnv* env);
  /// The interval of an index. It is computed from the parts where the index needs no quotient or
  /// remainder of them, otherwise from the axes in `env`.
  SymInterval interval(const Expr& index, const SymEnv& env) const;

 private:
  // A variable for the iterations of `axis`, of which some loops may be open already.
  Var imagine(int axis, SymEnv* env);
  // Gives each axis that `axis` was fused from its value, where `axis` has `value`.
  void take_fusion_apart(int axis, const Expr& value, std::map<int, Expr>* members);

  const ScheduleState& s_;
  AxisScope& axes_;
  std::vector<VarBinding> values_;  ///< of the stage's variables
  std::vector<Var> loops_;          ///< those that are imagined
};

}  // namespace heddle::lowering
