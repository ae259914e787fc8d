// Constant arrays as integers with scales.
#pragma once

#include <optional>

#include "heddle/runtime/ndarray.h"

namespace heddle::quantize {

/// integers * scales stands for an array of f32. `scales` has one number, or one for each index of
/// a dimension.
struct QuantizedArray {
  NDArray integers, scales;
};

/// Weights in i8 from -127 to 127, so that a negated weight is one too. `axis` is the dimension
/// whose indices have scales of their own; none: one scale for all.
QuantizedArray quantized_weights(const NDArray& weights, std::optional<int> axis);

/// A bias in i32, whose scale is that of the sums that it is added to; none where a value is beyond
/// i32. `scales` are those of the weights, and `input` is that of the other operand.
std::optional<QuantizedArray> quantized_bias(const NDArray& bias, const NDArray& scales,
                                             float input);

}  // namespace heddle::quantize
