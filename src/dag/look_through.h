// Expressions in terms of inputs and reductions: stages between them are looked through.
#pragma once

#include <set>
#include <vector>

#include "heddle/dag/compute_dag.h"

namespace heddle::dag {

inline constexpr int kMostStagesBetween = 64;  ///< that are looked through

/// `e` of stage `op` where its axes have the values `indices`.
Expr at_indices(const Operation& op, const Expr& e, const std::vector<Expr>& indices);

/// The only source of the reduction; null where the stage is not one of this kind over `num_axes`
/// axes, with one result and one source. num_axes = 0: over any number.
const Reduce* reduction_of(const Operation& op, ReduceKind kind, std::size_t num_axes);

class LookThrough {
 public:
  explicit LookThrough(const ComputeDag& dag) : dag_(dag) {}

  /// The stage that the load reads; -1 for none of the graph.
  int stage_of(const Load& load) const;
  /// Whether the stage may be looked through: one value of each element of what it reads.
  bool is_between(int stage) const;
  /// `e` in terms of inputs and reductions. Stages that are looked through are added to `through`.
  Expr expanded(const Expr& e);
  /// The same without a trace in `through`.
  Expr seen(const Expr& e);

  std::set<int> through;

 private:
  const ComputeDag& dag_;
  int looked_ = 0;
};

}  // namespace heddle::dag
