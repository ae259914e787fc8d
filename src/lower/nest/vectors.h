// What the vectors of a register tile read, which decides how its tail is computed.
#pragma once

#include "lower/nest/stage_graph.h"

namespace heddle::lowering {

/// The lanes of the vectorized loop inside of axis `id`; 0: there is none.
int64_t lanes_inside(const ScheduleState& s, int id);
/// Whether vectors of all reductions that are computed inside of loop `at` load neighbours.
bool vectors_are_runs(const StageGraph& graph, const LoopPlace& at);

}  // namespace heddle::lowering
