// DataType: the type of one scalar or of one SIMD vector of scalars.
//
//   DataType t = f32.with_lanes(8);
//   to_string(t);           // "f32x8"
//   parse_dtype("bf16");    // DataType{BFloat, 16, 1}
//
// A plain value, cheap to copy and compare. `boolean` has 1 bit but takes one byte in memory.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

namespace heddle {

/// The kinds of element types. BFloat is bfloat16. E4M3 and E5M2 are the 8-bit floats of OCP
/// (support/numbers/float8.h).
enum class TypeCode : std::uint8_t { Bool, Int, UInt, Float, BFloat, E4M3, E5M2 };

/// The type of an element or, with `lanes` above 1, of a vector.
struct DataType {
  TypeCode code = TypeCode::Float;
  std::uint8_t bits = 32;
  std::uint16_t lanes = 1;

  constexpr bool is_float() const { return code >= TypeCode::Float; }
  /// Whether it is a float of 8 or 16 bits. These are computed in f32.
  constexpr bool is_small_float() const { return is_float() && bits <= 16; }
  constexpr bool is_float8() const { return code >= TypeCode::E4M3; }
  constexpr bool is_int() const { return code == TypeCode::Int; }
  constexpr bool is_uint() const { return code == TypeCode::UInt; }
  constexpr bool is_bool() const { return code == TypeCode::Bool; }
  constexpr bool is_integral() const { return is_int() || is_uint() || is_bool(); }
  constexpr bool is_scalar() const { return lanes == 1; }
  constexpr bool is_vector() const { return lanes > 1; }

  constexpr DataType with_lanes(int n) const { return {code, bits, static_cast<std::uint16_t>(n)}; }
  constexpr DataType element() const { return {code, bits, 1}; }

  /// Bytes of one value of this type in memory, all lanes together.
  constexpr int bytes() const { return (is_bool() ? 1 : bits / 8) * lanes; }

  constexpr bool operator==(const DataType&) const = default;
};

/// The element types of tensors.
inline constexpr DataType f64{TypeCode::Float, 64, 1};
inline constexpr DataType f32{TypeCode::Float, 32, 1};
inline constexpr DataType f16{TypeCode::Float, 16, 1};
inline constexpr DataType bf16{TypeCode::BFloat, 16, 1};
inline constexpr DataType f8e4m3{TypeCode::E4M3, 8, 1};
inline constexpr DataType f8e5m2{TypeCode::E5M2, 8, 1};
inline constexpr DataType i8{TypeCode::Int, 8, 1};
inline constexpr DataType i16{TypeCode::Int, 16, 1};
inline constexpr DataType i32{TypeCode::Int, 32, 1};
inline constexpr DataType i64{TypeCode::Int, 64, 1};
inline constexpr DataType u8{TypeCode::UInt, 8, 1};
inline constexpr DataType u16{TypeCode::UInt, 16, 1};
inline constexpr DataType u32{TypeCode::UInt, 32, 1};
inline constexpr DataType u64{TypeCode::UInt, 64, 1};
inline constexpr DataType boolean{TypeCode::Bool, 1, 1};

/// The name of a type: "f32", "bf16", "f8e4m3", "i8", "bool", and with lanes "f32x8".
std::string to_string(DataType type);

/// The inverse of to_string; nullopt for a text that names no type.
std::optional<DataType> parse_dtype(std::string_view text);

/// Prints the name of the type.
std::ostream& operator<<(std::ostream& out, DataType type);

}  // namespace heddle
