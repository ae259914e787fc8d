// The order of long rows.
#pragma once

#include "heddle/ops/sort.h"
#include "ops/common.h"

namespace heddle::ops::impl {

/// The first `k` of each row of x (rows, n) in descending (`largest`) or ascending order, in time n log(n)^2, or for
/// k up to 32 linear in n.
Sorted sorted_rows(const Call& call, const Tensor& x, int64_t k, bool largest);

}  // namespace heddle::ops::impl
