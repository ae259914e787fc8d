// Where declarations meet arrays: constants whose values are known, and arrays made to fit tensors.
//
//   Tensor w = constant(weights, "w");                // an input that the kernel brings along
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
/// arguments of build() leave it out: the kernel supplies it, and what is derived from it alone
/// (packed weights) is computed once. Who lists it among the arguments passes an array at each
/// call, as for a constant_placeholder. Tuning measures with these values. Neither hashes nor
/// records depend on them; who changes them in place calls Kernel::refresh().
Tensor constant(NDArray values, std::string name = "constant", Where where = Where::current());

/// Arrays on the CPU of the type and the shape of `t`.
NDArray empty_like(const Tensor& t);  ///< contents undefined
NDArray zeros_like(const Tensor& t);
NDArray full_like(const Tensor& t, double value);
NDArray random_like(const Tensor& t, std::uint64_t seed);  ///< see NDArray::random

}  // namespace heddle
