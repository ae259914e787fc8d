// Checks of stages that are computed at one loop and kept for a loop around it (store_at). Later
// statements of the outer loop read them, so the inner loop must have computed all of them by then:
//
//   for i {
//     local e: f32[n]
//     for k { e[k] = ..; S = S + e[k] }      e is computed at k of S, and kept for i
//     for j { y[i, j] = e[j] / S }
//   }
//
// In: the regions inside of the loop that keeps the stage. Out: nothing, or a User error that says
// which rule is broken and what to do.
#pragma once

#include "lower/nest/regions.h"
#include "lower/nest/storage.h"

namespace heddle::lowering {

/// Checks that stage `p`, which is computed here and kept for a loop around, is held already.
void check_is_held(const StageGraph& graph, const Storage& storage, int p);

/// Checks that all of the region of `p` that the loop of `regions` needs, where it is kept, is
/// computed before a stage outside of the computing loop reads it.
void check_kept(const StageGraph& graph, Regions& regions, int p);

}  // namespace heddle::lowering
