// Whether a schedule, applied to all sizes, has vectors across rows whose length varies.
#pragma once

#include <vector>

#include "heddle/schedule/schedule.h"

namespace heddle::family {

/// Whether, at all sizes, each lane of some vector needs a quotient or a remainder by a length that
/// varies. A rule fuses rows of elements into one run where a bias repeats in whole vectors, or
/// where rows are short. At one size the place in the bias is a constant of each lane, or a run.
/// For all sizes it is a remainder, which takes longer than the rest of the kernel.
bool divides_in_lanes(const Schedule& at_one_size, const std::vector<Tensor>& outputs);

}  // namespace heddle::family
