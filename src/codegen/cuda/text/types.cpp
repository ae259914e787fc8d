#include "codegen/cuda/text/types.h"

#include <bit>
#include <charconv>
#include <cmath>

#include "heddle/support/error.h"
#include "support/numbers/float8.h"
#include "support/numbers/half.h"

namespace heddle::cuda {
namespace {

[[noreturn]] void no_such_type(DataType t) {
  throw_internal_error("CUDA code has no type " + to_string(t));
}

std::string hex(uint64_t bits) {
  char digits[16];
  const auto end = std::to_chars(digits, digits + sizeof digits, bits, 16).ptr;
  return "0x" + std::string(digits, end);
}

template <class T>
Text digits(T value, const char* suffix) {
  char text[64];
  std::string s(text, std::to_chars(text, text + sizeof text, value).ptr);
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  return {s + suffix, s[0] == '-' ? kUnary : kAtom};
}

}  // namespace

std::string value_type(DataType t) {
  switch (t.code) {
    case TypeCode::Bool: return "bool";
    case TypeCode::Int:
      switch (t.bits) {
        case 8: return "signed char";
        case 16: return "short";
        case 32: return "int";
        case 64: return "long long";
        default: break;
      }
      break;
    case TypeCode::UInt:
      switch (t.bits) {
        case 8: return "unsigned char";
        case 16: return "unsigned short";
        case 32: return "unsigned";
        case 64: return "unsigned long long";
        default: break;
      }
      break;
    case TypeCode::Float:
      switch (t.bits) {
        case 16: return "unsigned short";
        case 32: return "float";
        case 64: return "double";
        default: break;
      }
      break;
    case TypeCode::BFloat:
      if (t.bits == 16) return "unsigned short";
      break;
    case TypeCode::E4M3:
    case TypeCode::E5M2:
      if (t.bits == 8) return "unsigned char";
      break;
  }
  no_such_type(t);
}

std::string memory_type(DataType t) { return t.is_bool() ? "unsigned char" : value_type(t); }

std::string vector_type(DataType t, int bytes) {
  const DataType part = t.bytes() < 4 ? u32 : t.element();
  const int parts = bytes / part.bytes();
  if (parts == 1) return value_type(part);
  const std::string name = part == f32   ? "float"
                           : part == f64 ? "double"
                           : part == i32 ? "int"
                           : part == u32 ? "uint"
                           : part == i64 ? "longlong"
                                         : "ulonglong";
  return name + std::to_string(parts);
}

std::string make_vector(DataType t, int bytes) {
  const DataType part = t.bytes() < 4 ? u32 : t.element();
  return bytes == part.bytes() ? "" : "make_" + vector_type(t, bytes);
}

Text int_literal(DataType t, int64_t value) {
  if (t.is_bool()) return {value ? "true" : "false", kAtom};
  if (t.is_uint()) {
    if (t.bits == 64) return {std::to_string(static_cast<uint64_t>(value)) + "ull", kAtom};
    return {std::to_string(value) + (t.bits == 32 ? "u" : ""), kAtom};
  }
  // The lowest values have no literal: their digits are a positive number that does not fit.
  if (value == INT64_MIN) return {"-9223372036854775807ll - 1", kSum, true};
  if (value == INT32_MIN) return {"-2147483647 - 1", kSum};
  const bool wide = value > INT32_MAX || value < INT32_MIN;
  return {std::to_string(value) + (wide ? "ll" : ""), value < 0 ? kUnary : kAtom, wide};
}

Text float_literal(DataType t, double value) {
  if (t == f16) return {hex(double_to_half(value)), kAtom};
  if (t == bf16) return {hex(double_to_bfloat16(value)), kAtom};
  if (t == f8e4m3) return {hex(double_to_e4m3(value)), kAtom};
  if (t == f8e5m2) return {hex(double_to_e5m2(value)), kAtom};
  if (t == f32) {
    const auto v = static_cast<float>(value);
    if (std::isfinite(v)) return digits(v, "f");
    return {"__int_as_float(" + hex(std::bit_cast<uint32_t>(v)) + ")", kAtom};
  }
  if (t != f64) no_such_type(t);
  if (std::isfinite(value)) return digits(value, "");
  return {"__longlong_as_double(" + hex(std::bit_cast<uint64_t>(value)) + ")", kAtom};
}

}  // namespace heddle::cuda
