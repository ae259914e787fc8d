// Expressions in terms of inputs and reductions, with the stages between them substituted.
#pragma once

#include <set>
#include <vector>

#include "heddle/dag/compute_dag.h"

namespace heddle::dag {

inline constexpr int kMostStagesBetween = 64;  ///< limit of the substitutions in one expression

/// `e` without the casts around it.
const Expr& below_casts(const Expr& e);

/// `e` of stage `op` where its axes have the values `indices`.
Expr at_indices(const Operation& op, const Expr& e, const std::vector<Expr>& indices);

/// The only source of the reduction. Null where the stage is not a reduction of this kind over
/// `num_axes` axes, with one result and one source. With num_axes = 0 any number of axes is
/// accepted.
const Reduce* reduction_of(const Operation& op, ReduceKind kind, std::size_t num_axes);

class LookThrough {
 public:
  explicit LookThrough(const ComputeDag& dag) : dag_(dag) {}

  /// The stage that the load reads; -1 where it is not in the graph.
  int stage_of(const Load& load) const;
  /// Whether the stage may be substituted: each of its elements depends on one element of what it
  /// reads.
  bool is_between(int stage) const;
  /// `e` in terms of inputs and reductions. Substituted stages are added to `through`.
  Expr expanded(const Expr& e);
  /// The same without additions to `through`.
  Expr seen(const Expr& e);

  std::set<int> through;

 private:
  Expr expand(const Expr& e);

  const ComputeDag& dag_;
  int looked_ = 0;  ///< substitutions in one expression
};

}  // namespace heddle::dag
