// The padding stage that windows (convolution, pooling, lrn) put before them.
#pragma once

#include "ops/common.h"

namespace heddle::ops::impl {

/// x with `before` and `after` elements of `value` around it; x itself where all counts are 0.
/// Negative counts cut off. A stage of its own: the schedule decides whether it is materialised.
Tensor pad_constant(const Call& call, const Tensor& x, const Dims& before, const Dims& after,
                    const Expr& value);

}  // namespace heddle::ops::impl
