// Quotients that become bytes: where one multiplication and one rounding give the same as a division.
#pragma once

#include <optional>

#include "heddle/ir/expr.h"

namespace heddle::cuda {

/// clip(round(x / c) + zero, low, high) as a byte, of a 16-bit float x: round(clip(x * inverse + zero, low, high)),
/// or the lowest byte of
///
///   not clip((kWhole - zero) - x * inverse, kWhole - high, kWhole - low)        kWhole = 2^23 * 1.5 - 1
///
/// as an f32, which has no place for less than 1: adding rounds, and NaN, whose bits are ones, becomes 0. Nothing
/// is converted between floats and integers.
struct ByteQuotient {
  static constexpr float kWhole = 0x1.8p23F - 1;
  Expr x;  ///< f32, of a value that a 16-bit float holds
  float inverse = 1, zero = 0, low = 0, high = 0;
  bool whole = false;  ///< the second form
};

/// What `to_byte` computes; none where it is something else, or where one of the 65,536 values of x would
/// become another byte.
std::optional<ByteQuotient> find_byte_quotient(const Cast& to_byte, DataType to);

/// f32(i32(byte) - zero) of such a byte in the second form; none for all else.
struct QuotientAsF32 {
  ByteQuotient byte;
  DataType type;
  int64_t zero = 0;
};
std::optional<QuotientAsF32> find_quotient_as_f32(const Expr& number);

}  // namespace heddle::cuda
