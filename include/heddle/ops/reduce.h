// Reductions over axes of a tensor.
//
//   Tensor s = ops::sum(x, {-1});                      // (N, C) -> (N)
//   Tensor m = ops::mean(x, {2, 3}, true);             // (N, C, H, W) -> (N, C, 1, 1)
//
// `axes` may be negative; an empty list means all axes. With `keepdims` reduced dimensions remain
// with extent 1. Results have the type of x unless stated otherwise. 16-bit floats are accumulated
// in f32.
#pragma once

#include <vector>

#include "heddle/dsl/tensor.h"

namespace heddle::ops {

/// The sum, the product, the largest and the smallest element over `axes`. max and min are NaN
/// where an element is NaN.
Tensor sum(const Tensor& x, const std::vector<int>& axes = {}, bool keepdims = false,
           Where where = Where::current());
Tensor prod(const Tensor& x, const std::vector<int>& axes = {}, bool keepdims = false,
            Where where = Where::current());
Tensor max(const Tensor& x, const std::vector<int>& axes = {}, bool keepdims = false,
           Where where = Where::current());
Tensor min(const Tensor& x, const std::vector<int>& axes = {}, bool keepdims = false,
           Where where = Where::current());
/// Whether any, and whether all, elements of a bool tensor are true.
Tensor any(const Tensor& x, const std::vector<int>& axes = {}, bool keepdims = false,
           Where where = Where::current());
Tensor all(const Tensor& x, const std::vector<int>& axes = {}, bool keepdims = false,
           Where where = Where::current());
/// The mean of floats.
Tensor mean(const Tensor& x, const std::vector<int>& axes = {}, bool keepdims = false,
            Where where = Where::current());
/// The mean square distance from the mean, in two passes (the one-pass formula cancels). `unbiased`
/// divides by n - 1.
Tensor var(const Tensor& x, const std::vector<int>& axes = {}, bool keepdims = false,
           bool unbiased = true, Where where = Where::current());
/// log(sum(exp(x))), without overflow.
Tensor logsumexp(const Tensor& x, const std::vector<int>& axes = {}, bool keepdims = false,
                 Where where = Where::current());
/// sum(|x|).
Tensor norm_l1(const Tensor& x, const std::vector<int>& axes = {}, bool keepdims = false,
               Where where = Where::current());
/// sqrt(sum(x * x)).
Tensor norm_l2(const Tensor& x, const std::vector<int>& axes = {}, bool keepdims = false,
               Where where = Where::current());

/// The position of the largest element along `axis`, as i64; the first of equal ones. Undefined
/// where there are NaNs.
Tensor argmax(const Tensor& x, int axis = -1, bool keepdims = false,
              Where where = Where::current());
Tensor argmin(const Tensor& x, int axis = -1, bool keepdims = false,
              Where where = Where::current());

}  // namespace heddle::ops
