// The interpreter's representation of values: every scalar has eight bytes. Integers and bools are
// int64 (u64 by its bit pattern), floats are doubles that hold a value of their own type exactly.
//
// Computing in double and rounding once to f32 or a smaller float gives the same result as
// computing in that type: 53 bits are more than twice 24 plus 2, so rounding twice gives the same
// result for + -
// * / sqrt (Figueroa 1995).
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "heddle/support/dtype.h"
#include "heddle/support/error.h"
#include "support/numbers/float8.h"
#include "support/numbers/half.h"

namespace heddle::interp {

union Slot {
  std::int64_t i;
  double f;
};

// ---- element types: how a value lies in memory, and how a result is brought to the type ----
struct F64 {
  using Storage = double;
  static double round(double v) { return v; }
  static double read(Storage s) { return s; }
  static Storage write(double v) { return v; }
};
struct F32 {
  using Storage = float;
  static double round(double v) { return static_cast<float>(v); }
  static double read(Storage s) { return s; }
  static Storage write(double v) { return static_cast<float>(v); }
};
struct F16 {
  using Storage = std::uint16_t;
  static double round(double v) { return half_to_float(double_to_half(v)); }
  static double read(Storage s) { return half_to_float(s); }
  static Storage write(double v) { return double_to_half(v); }
};
struct BF16 {
  using Storage = std::uint16_t;
  static double round(double v) { return bfloat16_to_float(double_to_bfloat16(v)); }
  static double read(Storage s) { return bfloat16_to_float(s); }
  static Storage write(double v) { return double_to_bfloat16(v); }
};

struct E4M3 {
  using Storage = std::uint8_t;
  static double round(double v) { return e4m3_to_float(double_to_e4m3(v)); }
  static double read(Storage s) { return e4m3_to_float(s); }
  static Storage write(double v) { return double_to_e4m3(v); }
};
struct E5M2 {
  using Storage = std::uint8_t;
  static double round(double v) { return e5m2_to_float(double_to_e5m2(v)); }
  static double read(Storage s) { return e5m2_to_float(s); }
  // Results are rounded before. An infinity that is left was read.
  static Storage write(double v) {
    constexpr Storage kInfinity = 0x7c, kSign = 0x80;
    if (!std::isinf(v)) return double_to_e5m2(v);
    return v > 0 ? kInfinity : kInfinity | kSign;
  }
};

template <typename T>
struct Int {
  using Value = T;
  using Storage = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
  static constexpr int kBits = std::is_same_v<T, bool> ? 1 : static_cast<int>(8 * sizeof(T));
  static std::int64_t wrap(std::int64_t v) { return static_cast<std::int64_t>(static_cast<T>(v)); }
  static std::int64_t read(Storage s) { return wrap(static_cast<std::int64_t>(s)); }
  static Storage write(std::int64_t v) { return static_cast<Storage>(static_cast<T>(v)); }
};

[[noreturn]] inline void no_such_type(DataType type) {
  throw_internal_error("the interpreter has no type " + to_string(type));
}

/// Calls `fn(Int<T>{})` for the integer or bool type `type`.
template <typename F>
auto with_int_type(DataType type, F fn) {
  if (type.is_bool()) return fn(Int<bool>{});
  switch (type.bits) {
    case 8: return type.is_uint() ? fn(Int<std::uint8_t>{}) : fn(Int<std::int8_t>{});
    case 16: return type.is_uint() ? fn(Int<std::uint16_t>{}) : fn(Int<std::int16_t>{});
    case 32: return type.is_uint() ? fn(Int<std::uint32_t>{}) : fn(Int<std::int32_t>{});
    case 64: return type.is_uint() ? fn(Int<std::uint64_t>{}) : fn(Int<std::int64_t>{});
    default: no_such_type(type);
  }
}

/// Calls `fn(F32{})` or the like for the float type `type`.
template <typename F>
auto with_float_type(DataType type, F fn) {
  if (type.code == TypeCode::BFloat && type.bits == 16) return fn(BF16{});
  if (type.code == TypeCode::E4M3) return fn(E4M3{});
  if (type.code == TypeCode::E5M2) return fn(E5M2{});
  if (type.code == TypeCode::Float) {
    switch (type.bits) {
      case 16: return fn(F16{});
      case 32: return fn(F32{});
      case 64: return fn(F64{});
      default: break;
    }
  }
  no_such_type(type);
}

}  // namespace heddle::interp
