// The statements at the bottom of the loops of a stage: its bodies, in terms of the variables of
// the loops around and of the buffers that hold what they read.
//
//   C[i, j] = sum(k, A[i, k])        C[i0*4 + i1, j] = C[i0*4 + i1, j] + A.local[i1, k]
//
// In: values of axes and guards (AxisScope), and where stages are held (Storage). Out: statements,
// under the guards of their iteration. It knows nothing of loops and regions.
//
// Invariants: a load or store is inside of its buffer, or under a guard or select that asks; a
// stage that is computed beyond its axes reads zero where its producers have no element.
#pragma once

#include <vector>

#include "lower/nest/axis_scope.h"
#include "lower/nest/storage.h"

namespace heddle::lowering {

class Bodies {
 public:
  Bodies(const StageGraph& graph, const AxisScope& axes, const Storage& storage)
      : graph_(graph), s_(graph.state()), axes_(axes), storage_(storage) {}

  /// The results of the stage; of a reduction, one more value in its accumulators.
  Stmt store(int st) const;
  /// The identity in the accumulators of a reduction.
  Stmt init(int st) const;
  /// The accumulators times StageState::rescale.
  Stmt rescale(int st) const;
  /// A number of iterations of stage `st`, of which the values of axes are known: what it reads, where it is
  /// held.
  Expr iterations(const Expr& e, int st) const { return translate(e, st); }

 private:
  /// The store of a row whose place is data (StageState::places).
  // The store of a row whose place is data (StageState::places).
  Stmt store_row(int st) const;
  Stmt update(int st, const std::vector<Expr>& at) const;
  // The same for several components, after the statements `before`.
  Stmt update_tuple(int st, const std::vector<Expr>& at, std::vector<Stmt> before) const;
  // Prefetches of what the stage will read of another one.
  void add_prefetches(int st, const StageState::PrefetchHint& hint, std::vector<Stmt>* out) const;
  Stmt guarded(Stmt s) const;
  const Reduce& reduction(int st) const;
  // Where the element of this iteration is in the stage's buffers.
  std::vector<Expr> own_indices(int st) const;
  int component(int st, size_t output) const {
    return graph_.stage(st).bodies[output].as<Reduce>()->index;
  }

  // The body expression in terms of loop variables and buffers.
  Expr translate(const Expr& e, int reader) const;
  Expr translate(const Expr& e, int reader, RewriteMemo& memo) const;
  Expr translate_load(const Load& load, int reader, RewriteMemo& memo) const;
  // A load of stage `st` by a stage that is computed beyond its axes: zero where there is no
  // element.
  Expr within(const Expr& load, int st, const std::vector<Expr>& logical, uint64_t beyond) const;
  // The extent of dimension `d` of a stage.
  Expr extent_of(int st, size_t d) const;
  // The dimensions of `load` that stage `reader` may read beyond their ends.
  uint64_t beyond_ends(const Load& load, int reader) const;

  const StageGraph& graph_;
  const ScheduleState& s_;
  const AxisScope& axes_;
  const Storage& storage_;
};

}  // namespace heddle::lowering
