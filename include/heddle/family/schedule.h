// Schedules for shape families: declarations over dimensions (dsl/dim.h).
//
//   const Dim n = dim("n", 1, 4096);
//   ...                                                   // C over n
//   Kernel f = build(create_schedule({C}), {A, B, C});    // one kernel for all sizes of n
//   Kernel g = build(family_schedule({C}, {{n, 1}}), {A, B, C});   // the choice for n = 1, for all
//
// Rules and tuners choose for constant extents. They choose for the declaration at one size, and
// the steps of that schedule are applied to the declaration over dimensions. Its loops then run to
// the sizes of the call, with tails for the iterations beyond whole tiles.
#pragma once

#include <vector>

#include "heddle/dag/instance.h"
#include "heddle/driver/build.h"

namespace heddle {

/// Applies the steps of `at_one_size`, a schedule of an instance of `outputs` (at_sizes) or of an
/// alternative of it, to all sizes. Throws a User error that names the step and the dimension where
/// a step needs a constant extent, and the errors of apply_alternative.
Schedule for_all_sizes(const Schedule& at_one_size, const std::vector<Tensor>& outputs);

/// The schedule that create_schedule chooses at the sizes `at` without alternatives, applied to all
/// sizes.
Schedule family_schedule(const std::vector<Tensor>& outputs, const std::vector<SizeValue>& at,
                         const Target& target = Target::host(),
                         const AutoSchedulerOptions& options = current_auto_scheduler_options());

/// The sizes for which create_schedule chooses when it is given a family: 256 elements, or the
/// nearest size that each dimension has.
std::vector<SizeValue> usual_sizes(const std::vector<Tensor>& outputs);

}  // namespace heddle
