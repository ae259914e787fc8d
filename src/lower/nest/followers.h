// Reductions that follow a loop of another stage: their first reduce axis runs along it
// (StageState::along). Inside of the loop they have the value of the iterations so far. Their
// accumulators, and those of that stage, may be rescaled in each iteration:
//
//   m = lowest; l = 0; O = 0                                       inits
//   for t { tile = ..; m, shrink = max(m, tile), exp(m - ..)
//           l = l * shrink; l = l + ..                             update of l
//           O = O * shrink; for c { O = O + .. } }                 rescale of O, whose loop t is
//
// In: the part of each follower that its accumulators hold (AxisScope::hold), and a function that
// emits loops of a stage. Out: the statements before and inside of the loop that is followed. What
// they make known of axes is forgotten behind each.
#pragma once

#include <vector>

#include "heddle/support/function_ref.h"
#include "lower/nest/axis_scope.h"
#include "lower/nest/storage.h"

namespace heddle::lowering {

/// What the loops of a stage do.
enum class LoopsFor {
  Compute,  ///< they compute it, with all that is computed inside of them
  Init,     ///< they initialise its accumulators
  Update,   ///< they are one iteration of a stage that follows another's loop
  Rescale   ///< they multiply its accumulators
};
/// Emits the loops `leaves` of a stage.
using EmitLoops = FunctionRef<Stmt(int stage, const std::vector<int>& leaves, LoopsFor what)>;

class Followers {
 public:
  Followers(const StageGraph& graph, AxisScope& axes, const Storage& storage)
      : graph_(graph), s_(graph.state()), axes_(axes), storage_(storage) {}

  /// Initialises the accumulators of the stage at `at`, whose first reduce loop that is, and of all
  /// that follow this loop.
  Stmt inits(const LoopPlace& at, EmitLoops emit);
  /// The update of follower `p` in an iteration of `loop`.
  Stmt update(int p, int loop, EmitLoops emit);
  /// Multiplies the accumulators of stage `st` inside of the first of its reduce loops.
  Stmt rescale(int st, const std::vector<int>& leaves, EmitLoops emit);

 private:
  // A follower is computed in each iteration, where its loops start again.
  void enter(int p);
  // The leaves of the stage without the axis that follows, and without the other reduce axes unless
  // `reduce` is set.
  std::vector<int> own_leaves(int p, bool reduce) const;

  const StageGraph& graph_;
  const ScheduleState& s_;
  AxisScope& axes_;
  const Storage& storage_;
};

}  // namespace heddle::lowering
