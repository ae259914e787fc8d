// What the vectors of a register tile read, which decides how its tail is computed.
#pragma once

#include "lower/nest/stage_graph.h"

namespace heddle {

/// The lanes of the vectorized loop inside of axis `id`; 0: there is none.
int64_t lanes_inside(const ScheduleState& s, int id);
/// Whether vectors of all reductions that are computed inside of loop `n` of `st` load neighbours.
bool vectors_are_runs(const StageGraph& graph, int st, const std::vector<int>& leaves, size_t n);

}  // namespace heddle
