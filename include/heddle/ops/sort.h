// Sorting by value.
//
//   auto [values, positions] = ops::top_k(scores, 5);
#pragma once

#include <cstdint>

#include "heddle/dsl/tensor.h"

namespace heddle::ops {

/// Sorted values, and where they were.
struct Sorted {
  Tensor values;
  Tensor positions;  ///< i64, along the axis
};

/// The `k` largest (or smallest) elements along `axis`, in that order; the first of equal elements
/// comes first. NaN is larger than all numbers, and equal to itself. In a row of up to 256 elements each counts
/// those before it; longer ones are merged of sorted parts, in n log(n)^2 steps, or in n log(k)^2 where k is a
/// small part of n. Up to 32 of many are found one after the other, in about n + 4 k sqrt(n) steps.
Sorted top_k(const Tensor& x, int64_t k, int axis = -1, bool largest = true,
             Where where = Where::current());

/// All elements along `axis` in ascending (or descending) order.
Sorted sort(const Tensor& x, int axis = -1, bool descending = false,
            Where where = Where::current());

}  // namespace heddle::ops
