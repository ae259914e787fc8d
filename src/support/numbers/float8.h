// Conversions between float and the two 8-bit formats of the "OCP 8-bit Floating Point
// Specification" (OFP8, revision 1.0, 2023), rounding to nearest even. Values that are too large,
// and infinities, become the largest number (the specification's saturating mode, which is that of
// GPUs). NaN becomes 0x7f.
#pragma once

#include <cstdint>

namespace heddle {

/// E4M3: largest number 448, no infinity, NaN where all bits but the sign are 1.
std::uint8_t float_to_e4m3(float value);
float e4m3_to_float(std::uint8_t bits);

/// E5M2: largest number 57344; infinities and NaNs as in IEEE 754.
std::uint8_t float_to_e5m2(float value);
float e5m2_to_float(std::uint8_t bits);

/// Converts from double with one rounding. A conversion through float would round twice.
std::uint8_t double_to_e4m3(double value);
std::uint8_t double_to_e5m2(double value);

}  // namespace heddle
