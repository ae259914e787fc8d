// The padding stage before windows (convolution, pooling, lrn).
#pragma once

#include "ops/common.h"

namespace heddle::ops::impl {

/// x with `before` and `after` elements of `value` around it; x itself where all counts are 0.
/// Negative counts remove elements. It is a separate stage, and the schedule decides whether it is
/// stored.
Tensor pad_constant(const Call& call, const Tensor& x, const Dims& before, const Dims& after,
                    const Expr& value);

}  // namespace heddle::ops::impl
