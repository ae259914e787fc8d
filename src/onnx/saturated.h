// Conversion to the integers of quantised tensors.
#pragma once

#include <cmath>

#include "heddle/dsl/tensor.h"

namespace heddle::onnx {

/// `value`, or the nearest number of the integer type `type`.
inline Expr saturated(const Expr& value, DataType type) {
  const int bits = type.is_uint() ? type.bits : type.bits - 1;
  const Expr low = make_const(value.dtype(), type.is_uint() ? 0 : -std::ldexp(1.0, bits));
  const Expr high = make_const(value.dtype(), std::ldexp(1.0, bits) - 1);
  return cast(type, min(max(value, low), high));
}

}  // namespace heddle::onnx
