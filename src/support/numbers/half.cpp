#include "support/numbers/half.h"

#include <bit>
#include <cmath>

namespace heddle {
namespace {

// Rounds once from the 53-bit mantissa of a double to `mantissa` and `exponent` bits. A float
// converts to double exactly, so this serves both sources.
template <int kExponentBits, int kMantissaBits>
std::uint16_t narrow(double value) {
  constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  constexpr std::uint16_t kInfinity = ((1 << kExponentBits) - 1) << kMantissaBits;
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | kInfinity | (1 << (kMantissaBits - 1));
  const double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | kInfinity;
  if (magnitude == 0.0) return sign;

  int exponent = std::ilogb(magnitude);
  if (exponent < 1 - kBias) exponent = 1 - kBias;  // subnormal numbers share one exponent
  // In units of the last place the value is below 2^(kMantissaBits+1), so nearbyint rounds it
  // exactly, ties to even. A carry into the next exponent is handled by plain addition.
  const double units = std::nearbyint(std::scalbn(magnitude, kMantissaBits - exponent));
  const auto whole = static_cast<std::uint32_t>(units);
  const std::uint32_t biased = static_cast<std::uint32_t>(exponent + kBias - 1) << kMantissaBits;
  const std::uint32_t bits = biased + whole;
  return sign | static_cast<std::uint16_t>(bits >= kInfinity ? kInfinity : bits);
}

}  // namespace

std::uint16_t double_to_half(double value) { return narrow<5, 10>(value); }
std::uint16_t double_to_bfloat16(double value) { return narrow<8, 7>(value); }
std::uint16_t float_to_half(float value) { return narrow<5, 10>(value); }

std::uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40);
  // Adding just under half a step, and one more if the kept part is odd, rounds to nearest even.
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1f;
  const std::uint32_t mantissa = bits & 0x3ff;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

float bfloat16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

}  // namespace heddle
