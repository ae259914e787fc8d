// A few kernels for all sizes of a declaration over dimensions, chosen without running any.
//
//   const Dim n = dim("n", 1, 2048);
//   ...                                          // C over n, from A and B
//   FamilyKernel f = generic_family({A, B, C});
//   f(a, b, c);                                  // at any size
//
// One schedule is poor at sizes far from the one that it was chosen at: a product of one row reads
// its operand in place, one of 2048 rows packs it first. So schedules are chosen at a few sizes, as
// for the nodes of networks. Each kernel is correct at every size. choose_family (family/choose.h)
// makes kernels at more sizes, times them and keeps the best.
#pragma once

#include <vector>

#include "heddle/driver/build.h"
#include "heddle/runtime/family_kernel.h"

namespace heddle {

/// Builds the kernels. `args` are the arguments of the call, inputs and outputs over dimensions.
/// On a CPU one dimension has up to four kernels, chosen at sizes that are spaced geometrically over
/// the range, and each runs up to one and a half times its size. On a GPU it has up to six, chosen
/// where the static choice changes, and the one for the next larger size runs. A size whose choice
/// does not hold for all sizes has no kernel of its own. Throws a User error where no size occurs in the arguments, where a size
/// occurs in none of them, and where no choice holds for all sizes.
FamilyKernel generic_family(
    const std::vector<Tensor>& args, const Target& target = Target::host(),
    const AutoSchedulerOptions& scheduler = current_auto_scheduler_options(),
    const BuildOptions& options = {});

}  // namespace heddle
