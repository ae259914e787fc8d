// Places of values among sorted ones.
//
//   Tensor place = ops::searchsorted(borders, x);   // how many borders are less than each x
#pragma once

#include "heddle/dsl/tensor.h"

namespace heddle::ops {

/// The number of elements of each row of `sorted` (..., n), which ascends, that are less than each of
/// `values` (..., m); with `right`, less or equal. i64 of the shape of `values`. A `sorted` of rank 1 serves
/// values of any shape. By bisection, so that the work is m times log(n). NaN is
/// equal to itself, and larger than all numbers.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right = false,
                    Where where = Where::current());

}  // namespace heddle::ops
