// The first step of lowering: loop nests for the scheduled stages. A nest is built from outside in.
// Where B[i] = A[i] + A[i + 1] + A[i + 2], i is split by 8, and A is computed at the outer loop:
//
//   for o in 0..(n + 7)/8 {              open_loops    the range of o, and its last iteration
//     if (o < n/8) {                     tails         the case of whole tiles: i runs over 8
//       local A: f32[10]                 storage       holds A from element 8*o on
//       for a in 0..10 { A[a] = .. }     regions       what is read of A below: [8*o, 8*o + 9]
//       for i in 0..8 {                  axis_scope    i of B is 8*o + i, and inside of B
//         B[8*o + i] = A[i] + ..         bodies        B's body, by these values and buffers
//       }
//     } else { the same, i in 0..n % 8 } tails         the other case, built anew
//   }
//
// build_nest.cpp opens loops and asks the parts, which do not know it. What emits loops in turn, as
// `tails` and `followers` do, is given a function for that. Each part stands on those before it:
//
//   stage_graph   the stages, who reads whom, which loop is inside of which; fixed
//   open_loops    ranges of loop variables, and proofs
//   axis_scope    extents, values, intervals and guards of axes at a place
//   regions       what the statements inside of a loop read (open_parts: of fused axes)
//   storage       the buffers that hold it
//   bodies        the statements at the bottom of loops
//   kept          checks of stages that are kept for longer than they are computed for
//   tails         the cases that a split leaves (dependence, vectors: which of them need copies)
//   followers     reductions that run along a loop of another stage
#pragma once

#include <vector>

#include "heddle/ir/stmt.h"
#include "schedule/steps/schedule_state.h"

namespace heddle::lowering {

struct StageBuffers {
  int stage = -1;
  std::vector<Buffer> buffers;
};

struct NestOptions {
  /// Indices and values are not simplified, which is a third faster. This is for a nest that is
  /// only analysed. Its loops are the same.
  bool plain_accesses = false;
  /// Vectors may leave out lanes. What is left of a register tile along an axis of varying length
  /// is then whole vectors: what they load beyond the axis is zero, and nothing is stored there.
  bool masks = false;
};

/// The nests of the stages `roots`, which are at the root, producers first, with all stages that
/// are computed inside them. `external` gives the buffers of stages that exist already: arguments
/// and persistent buffers. The buffers of other root stages are Global temporaries around the nests
/// that follow.
///
/// A split that does not divide gives, where an inner loop is unrolled or vectorised, two copies of
/// the body with constant extents under `if (outer < n / factor)` (loop_partition then cuts the
/// loop there); elsewhere the inner loop runs to min(factor, n - outer*factor). Indices stay
/// multi-dimensional, relative to the part of a stage that its buffer holds.
///
Stmt build_nest(const ScheduleState& state, const std::vector<int>& roots,
                const std::vector<StageBuffers>& external, const NestOptions& options);

/// Buffers of the stage's storage shape (its layout applied to its whole domain).
StageBuffers root_buffers(const ScheduleState& state, int stage, Scope scope);

/// All defined, not inlined stages, producers first.
std::vector<int> topological_stages(const ScheduleState& state);

}  // namespace heddle::lowering
