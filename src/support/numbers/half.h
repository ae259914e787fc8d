// Conversions between float and the two 16-bit formats, rounding to nearest even. NaN stays NaN,
// values that are too large become infinity, and subnormal values are kept.
#pragma once

#include <cstdint>

namespace heddle {

/// IEEE 754 binary16, as its bits.
std::uint16_t float_to_half(float value);
float half_to_float(std::uint16_t bits);

/// bfloat16, as its bits.
std::uint16_t float_to_bfloat16(float value);
float bfloat16_to_float(std::uint16_t bits);

/// Converts from double with one rounding. A conversion through float would round twice.
std::uint16_t double_to_half(double value);
std::uint16_t double_to_bfloat16(double value);

}  // namespace heddle
