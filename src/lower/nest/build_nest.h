// The first step of lowering: loop nests for the scheduled stages.
#pragma once

#include <vector>

#include "heddle/ir/stmt.h"
#include "schedule/schedule_state.h"

namespace heddle {

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

}  // namespace heddle
