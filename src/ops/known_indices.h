// Checks of the indices of gathers and scatters.
#pragma once

#include <vector>

#include "ops/common.h"

namespace heddle::ops::impl {

/// Checks that `indices` are integers, of at least `rank` dimensions.
void check_indices(const Call& call, const Tensor& indices, int rank);

/// Checks the values of `indices` where the declaration has them: each is in [-extent, extent).
/// With several `extents` an index is a row of positions, one for each. `x` is what they select
/// from, for messages.
void check_known_indices(const Call& call, const Tensor& x, const Tensor& indices,
                         const Dims& extents);

}  // namespace heddle::ops::impl
