#include "heddle/support/dtype.h"

#include <charconv>
#include <ostream>

namespace heddle {

std::string to_string(DataType type) {
  std::string text;
  switch (type.code) {
    case TypeCode::Bool: text = "bool"; break;
    case TypeCode::Int: text = "i" + std::to_string(type.bits); break;
    case TypeCode::UInt: text = "u" + std::to_string(type.bits); break;
    case TypeCode::Float: text = "f" + std::to_string(type.bits); break;
    case TypeCode::BFloat: text = "bf" + std::to_string(type.bits); break;
    case TypeCode::E4M3: text = "f" + std::to_string(type.bits) + "e4m3"; break;
    case TypeCode::E5M2: text = "f" + std::to_string(type.bits) + "e5m2"; break;
  }
  if (type.lanes != 1) text += "x" + std::to_string(type.lanes);
  return text;
}

std::optional<DataType> parse_dtype(std::string_view text) {
  int lanes = 1;
  if (std::size_t x = text.find('x'); x != std::string_view::npos) {
    std::string_view digits = text.substr(x + 1);
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), lanes);
    if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
    if (lanes < 1 || lanes > 65535) return std::nullopt;
    text = text.substr(0, x);
  }
  for (DataType type :
       {f64, f32, f16, bf16, f8e4m3, f8e5m2, i8, i16, i32, i64, u8, u16, u32, u64, boolean}) {
    if (text == to_string(type)) return type.with_lanes(lanes);
  }
  return std::nullopt;
}

std::ostream& operator<<(std::ostream& out, DataType type) { return out << to_string(type); }

}  // namespace heddle
