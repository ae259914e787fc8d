// Quotients that become bytes: where one multiplication and one rounding give the same as a division.
#pragma once

#include <optional>

#include "heddle/ir/expr.h"

namespace heddle::cuda {

/// clip(round(x / c) + zero, low, high) as a byte, of a 16-bit float x: round(clip(x * inverse + zero, low, high)).
struct ByteQuotient {
  Expr x;  ///< f32, of a value that a 16-bit float holds
  float inverse = 1, zero = 0, low = 0, high = 0;
};

/// What `cast`, to a byte, computes; none where it is something else, or where one of the 65,536 values of x would
/// become another byte.
std::optional<ByteQuotient> find_byte_quotient(const Cast& cast, DataType to);

}  // namespace heddle::cuda
