// The text of OperandType.
#include <charconv>
#include <cmath>
#include <string>
#include <vector>

#include "heddle/network/passes.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

bool has_scale(DataType type) { return type == u8 || type == i8 || type == f8e4m3; }

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ':') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

template <class T>
bool read_number(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && rest == end;
}

[[noreturn]] void fail(const std::string& text) {
  throw_user_error(
      "'" + text + "' are no operands of a product", {},
      "f32, tf32, f16 or bf16; or f8e4m3, u8 or i8 with the scale and the zero point of the "
      "operand that is computed: u8:0.0125:128");
}

}  // namespace

std::string to_string(const OperandType& type) {
  if (type.tf32) return "tf32";
  const std::string name = to_string(type.type);
  if (!has_scale(type.type)) return name;
  char scale[32];
  const auto end = std::to_chars(scale, scale + sizeof scale, type.scale).ptr;
  return name + ":" + std::string(scale, end) + ":" + std::to_string(type.zero);
}

OperandType parse_operand_type(const std::string& text) {
  if (text == "tf32") return {.tf32 = true};
  const std::vector<std::string> parts = parts_of(text);
  const std::optional<DataType> type = parse_dtype(parts[0]);
  if (!type) fail(text);
  OperandType out{.type = *type};
  if (*type == f32 || *type == f16 || *type == bf16) {
    if (parts.size() != 1) fail(text);
    return out;
  }
  if (!has_scale(*type) || parts.size() != 3 || !read_number(parts[1], out.scale) ||
      !read_number(parts[2], out.zero) || !(out.scale > 0) || !std::isfinite(out.scale))
    fail(text);
  const int least = *type == i8 ? -128 : 0, most = *type == f8e4m3 ? 0 : least + 255;
  if (out.zero < least || out.zero > most) fail(text);
  return out;
}

}  // namespace heddle
