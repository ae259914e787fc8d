// Constants whose values are known, and arrays that have the type and shape of tensors.
//
//   Tensor w = constant(weights, "w");                // an input that the kernel supplies
//   Tensor y = ops::relu(ops::matmul(x, w));
//   Kernel kernel = build(create_schedule({y}), {x, y});
//   NDArray in = random_like(x, 1), out = zeros_like(y);
//   kernel(in, out);                                  // w is not passed
#pragma once

#include <cstdint>
#include <string>

#include "heddle/dsl/tensor.h"
#include "heddle/runtime/ndarray.h"

namespace heddle {

/// An input with the values of `values`, an array on the CPU, which is shared and not copied. The
/// arguments of build() leave it out, and the kernel supplies it. Values derived from it alone,
/// such as packed weights, are computed once. Where it is listed among the arguments, each call
/// passes an array, as for a constant_placeholder. Tuning measures with these values. Neither
/// hashes nor records depend on them. After changing them in place call Kernel::refresh().
Tensor constant(NDArray values, std::string name = "constant", Where where = Where::current());

/// Arrays on the CPU of the type and the shape of `t`.
NDArray empty_like(const Tensor& t);  ///< contents undefined
NDArray zeros_like(const Tensor& t);
/// All elements are `value`, converted to the type of `t`.
NDArray full_like(const Tensor& t, double value);
NDArray random_like(const Tensor& t, std::uint64_t seed);  ///< see NDArray::random

}  // namespace heddle
