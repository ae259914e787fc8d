// Elements of any type as numbers.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "heddle/support/dtype.h"
#include "support/numbers/float8.h"
#include "support/numbers/half.h"

namespace heddle::internal {

/// Calls f with a pointer of the element's C++ type; for floats of 8 and 16 bits with these
/// wrappers, which convert like numbers.
struct Half {
  std::uint16_t bits;
  operator double() const { return half_to_float(bits); }  // NOLINT(google-explicit-constructor)
};
struct BFloat16 {
  std::uint16_t bits;
  operator double() const {  // NOLINT(google-explicit-constructor)
    return bfloat16_to_float(bits);
  }
};

struct E4M3 {
  std::uint8_t bits;
  operator double() const { return e4m3_to_float(bits); }  // NOLINT(google-explicit-constructor)
};
struct E5M2 {
  std::uint8_t bits;
  operator double() const { return e5m2_to_float(bits); }  // NOLINT(google-explicit-constructor)
};

template <typename F>
auto visit_elements(DataType type, void* data, F&& f) {
  switch (type.code) {
    case TypeCode::Bool: return f(static_cast<bool*>(data));
    case TypeCode::BFloat: return f(static_cast<BFloat16*>(data));
    case TypeCode::E4M3: return f(static_cast<E4M3*>(data));
    case TypeCode::E5M2: return f(static_cast<E5M2*>(data));
    case TypeCode::Float:
      if (type.bits == 64) return f(static_cast<double*>(data));
      if (type.bits == 16) return f(static_cast<Half*>(data));
      break;
    case TypeCode::Int:
      if (type.bits == 8) return f(static_cast<std::int8_t*>(data));
      if (type.bits == 16) return f(static_cast<std::int16_t*>(data));
      if (type.bits == 32) return f(static_cast<std::int32_t*>(data));
      return f(static_cast<std::int64_t*>(data));
    case TypeCode::UInt:
      if (type.bits == 8) return f(static_cast<std::uint8_t*>(data));
      if (type.bits == 16) return f(static_cast<std::uint16_t*>(data));
      if (type.bits == 32) return f(static_cast<std::uint32_t*>(data));
      return f(static_cast<std::uint64_t*>(data));
  }
  return f(static_cast<float*>(data));
}

/// Rounds to nearest even. Integers saturate, and NaN becomes 0.
template <typename T>
void store_number(T& element, double value) {
  if constexpr (std::is_same_v<T, Half>) {
    element.bits = double_to_half(value);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    element.bits = double_to_bfloat16(value);
  } else if constexpr (std::is_same_v<T, E4M3>) {
    element.bits = double_to_e4m3(value);
  } else if constexpr (std::is_same_v<T, E5M2>) {
    element.bits = double_to_e5m2(value);
  } else if constexpr (std::is_same_v<T, bool>) {
    element = value != 0.0;
  } else if constexpr (std::is_integral_v<T>) {
    using Limits = std::numeric_limits<T>;
    const double rounded = std::nearbyint(value);
    // The largest 64-bit value is not a double. Values from the power of two above it on saturate.
    if (std::isnan(rounded)) {
      element = 0;
    } else if (rounded <= static_cast<double>(Limits::min())) {
      element = Limits::min();
    } else if (rounded >= static_cast<double>(Limits::max())) {
      element = Limits::max();
    } else {
      element = static_cast<T>(rounded);
    }
  } else {
    element = static_cast<T>(value);
  }
}

}  // namespace heddle::internal
