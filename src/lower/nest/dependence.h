// Whether the regions of stages depend on an axis of the stage around them, which decides whether
// the loops below that axis need constant extents. It reads indices alone, through any number of
// stages between:
//
//   for i { A[0..k) = ..; for j { C[i, j] += A[k] * B[k, j] } }     A depends on neither i nor j
#pragma once

#include "lower/nest/stage_graph.h"

namespace heddle::lowering {

/// Whether a stage computed between loop `at` and the loops below axis `id` has a region that spans
/// them. Its own unrolled and vectorized loops then need the extent. Where the length is `sized`,
/// constant extents cost a copy for each part of a tail, so only regions that depend on the axis
/// count: a packed operand that all rows share is then packed once for full tiles and tail.
bool region_of_inside(const StageGraph& graph, const LoopPlace& at, int id, bool sized);

/// Whether such a stage has loops along the axis whose length must be a number: unrolled ones, and
/// vectors. A stage that cuts the dimension into tiles in a loop has tails of its own instead.
bool tiles_span(const StageGraph& graph, const LoopPlace& at, int id);

}  // namespace heddle::lowering
