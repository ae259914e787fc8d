// The places of rows of which data decides whether they are results.
#pragma once

#include "ops/common.h"

namespace heddle::ops::impl {

/// The results among elements, in their order.
struct Places {
  Tensor before;  ///< i64 (n): how many results there are up to and with each element
  Tensor count;   ///< i64 of rank 0
  Tensor from;    ///< i64 (n): the element that is result r, n where there are fewer results
};
/// `flags` are bools (n).
Places places_of(const Call& call, const Tensor& flags);

}  // namespace heddle::ops::impl
