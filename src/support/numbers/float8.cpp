#include "support/numbers/float8.h"

#include <bit>
#include <cmath>

#include "support/numbers/half.h"

namespace heddle {
namespace {

constexpr std::uint8_t kNan = 0x7f, kSign = 0x80;

// Rounds once from the 53-bit mantissa of a double. `largest` are the bits of the largest number.
template <int kMantissaBits, int kBias>
std::uint8_t narrow(double value, std::uint8_t largest) {
  if (std::isnan(value)) return kNan;
  const std::uint8_t sign = std::signbit(value) ? kSign : 0;
  const double magnitude = std::fabs(value);
  if (magnitude == 0.0) return sign;
  if (std::isinf(magnitude)) return sign | largest;
  int exponent = std::ilogb(magnitude);
  if (exponent < 1 - kBias) exponent = 1 - kBias;  // subnormal numbers share one exponent
  if (exponent > kBias + 1) return sign | largest;
  // A carry into the next exponent is handled by plain addition.
  const double units = std::nearbyint(std::scalbn(magnitude, kMantissaBits - exponent));
  const int bits = ((exponent + kBias - 1) << kMantissaBits) + static_cast<int>(units);
  return sign | (bits > largest ? largest : static_cast<std::uint8_t>(bits));
}

}  // namespace

std::uint8_t double_to_e4m3(double value) { return narrow<3, 7>(value, 0x7e); }
std::uint8_t double_to_e5m2(double value) { return narrow<2, 15>(value, 0x7b); }
std::uint8_t float_to_e4m3(float value) { return double_to_e4m3(value); }
std::uint8_t float_to_e5m2(float value) { return double_to_e5m2(value); }

float e4m3_to_float(std::uint8_t bits) {
  const int magnitude = bits & 0x7f;
  if (magnitude == kNan) return std::bit_cast<float>(0x7fc00000U);
  // The bits as those of an f32 have the value 2^-120 times that of the number.
  const float value = std::bit_cast<float>(static_cast<std::uint32_t>(magnitude) << 20) * 0x1p120F;
  return (bits & kSign) != 0 ? -value : value;
}

// E5M2 is the upper half of binary16.
float e5m2_to_float(std::uint8_t bits) {
  return half_to_float(static_cast<std::uint16_t>(bits << 8));
}

}  // namespace heddle
