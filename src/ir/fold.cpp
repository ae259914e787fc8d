#include "ir/fold.h"

#include <bit>
#include <cmath>

#include "support/numbers/float8.h"
#include "support/numbers/half.h"

namespace heddle {
namespace {

int64_t as_signed(uint64_t v) { return static_cast<int64_t>(v); }
uint64_t as_unsigned(int64_t v) { return static_cast<uint64_t>(v); }

bool less(DataType t, int64_t a, int64_t b) {
  return t.is_uint() ? as_unsigned(a) < as_unsigned(b) : a < b;
}

}  // namespace

int64_t wrap_int(DataType t, int64_t v) {
  if (t.is_bool()) return v != 0;
  if (t.bits >= 64) return v;
  const int shift = 64 - t.bits;
  const uint64_t high = as_unsigned(v) << shift;
  return t.is_int() ? as_signed(high) >> shift : as_signed(high >> shift);
}

bool int_fits(DataType t, int64_t v) {
  if (t.is_uint() && v < 0) return false;
  return wrap_int(t, v) == v;
}

double round_float(DataType t, double v) {
  if (t.code == TypeCode::BFloat) {
    return static_cast<double>(bfloat16_to_float(double_to_bfloat16(v)));
  }
  if (t == f8e4m3) return static_cast<double>(e4m3_to_float(double_to_e4m3(v)));
  if (t == f8e5m2) return static_cast<double>(e5m2_to_float(double_to_e5m2(v)));
  if (t.bits == 16) return static_cast<double>(half_to_float(double_to_half(v)));
  if (t.bits == 32) return static_cast<double>(static_cast<float>(v));
  return v;
}

double rounded_to_tf32(double v) {
  const auto x = static_cast<float>(v);
  if (!std::isfinite(x)) return static_cast<double>(x);
  const uint32_t bits = (std::bit_cast<uint32_t>(x) + 0x1000) & ~uint32_t{0x1fff};
  return static_cast<double>(std::bit_cast<float>(bits));
}

std::optional<int64_t> float_to_int(DataType t, double v) {
  if (std::isnan(v)) return std::nullopt;
  if (t.is_bool()) return v != 0;
  const double whole = std::trunc(v);
  const int value_bits = t.is_int() ? t.bits - 1 : t.bits;
  const double end = std::ldexp(1.0, value_bits);  // first value too large
  if (whole >= end || whole < (t.is_int() ? -end : 0.0)) return std::nullopt;
  if (t.is_uint()) return as_signed(static_cast<uint64_t>(whole));
  return static_cast<int64_t>(whole);
}

int64_t floor_div(int64_t a, int64_t b) {
  if (b == -1) return as_signed(0 - as_unsigned(a));
  const int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

int64_t floor_mod(int64_t a, int64_t b) {
  if (b == -1) return 0;
  const int64_t r = a % b;
  return (r != 0 && (r < 0) != (b < 0)) ? r + b : r;
}

std::optional<int64_t> fold_int(BinaryOp op, DataType t, int64_t a, int64_t b) {
  const uint64_t ua = as_unsigned(a), ub = as_unsigned(b);
  const auto wrapped = [&](uint64_t v) { return wrap_int(t, as_signed(v)); };
  switch (op) {
    case BinaryOp::Add: return wrapped(ua + ub);
    case BinaryOp::Sub: return wrapped(ua - ub);
    case BinaryOp::Mul: return wrapped(ua * ub);
    case BinaryOp::Div:
      if (b == 0) return std::nullopt;
      if (t.is_uint()) return wrapped(ua / ub);
      return b == -1 ? wrapped(0 - ua) : a / b;
    case BinaryOp::Mod:
      if (b == 0) return std::nullopt;
      if (t.is_uint()) return wrapped(ua % ub);
      return b == -1 ? 0 : a % b;
    case BinaryOp::FloorDiv:
      if (b == 0) return std::nullopt;
      return t.is_uint() ? wrapped(ua / ub) : wrap_int(t, floor_div(a, b));
    case BinaryOp::FloorMod:
      if (b == 0) return std::nullopt;
      return t.is_uint() ? wrapped(ua % ub) : floor_mod(a, b);
    case BinaryOp::Min: return less(t, b, a) ? b : a;
    case BinaryOp::Max: return less(t, a, b) ? b : a;
    case BinaryOp::Eq: return a == b;
    case BinaryOp::Ne: return a != b;
    case BinaryOp::Lt: return less(t, a, b);
    case BinaryOp::Le: return !less(t, b, a);
    case BinaryOp::And: return (a != 0) && (b != 0);
    case BinaryOp::Or: return (a != 0) || (b != 0);
    case BinaryOp::BitAnd: return a & b;
    case BinaryOp::BitOr: return a | b;
    case BinaryOp::BitXor: return a ^ b;
    case BinaryOp::Shl:
      if (b < 0 || b >= t.bits) return std::nullopt;
      return wrapped(ua << b);
    case BinaryOp::Shr:
      if (b < 0 || b >= t.bits) return std::nullopt;
      return t.is_uint() ? as_signed(ua >> b) : a >> b;
    case BinaryOp::Pow:
    case BinaryOp::Atan2: return std::nullopt;
  }
  return std::nullopt;
}

std::optional<double> fold_float(BinaryOp op, DataType t, double a, double b) {
  // One operation in double and one rounding give the result of the type's own arithmetic for + - *
  // /, because a double has more than twice the bits of f32 and of both 16-bit types.
  switch (op) {
    case BinaryOp::Add: return round_float(t, a + b);
    case BinaryOp::Sub: return round_float(t, a - b);
    case BinaryOp::Mul: return round_float(t, a * b);
    case BinaryOp::Div: return round_float(t, a / b);
    case BinaryOp::Mod: return round_float(t, std::fmod(a, b));
    case BinaryOp::Min:
    case BinaryOp::Max:
      // Machines differ in the result for NaN and in the order of the two zeros.
      if (std::isnan(a) || std::isnan(b) || (a == 0 && b == 0)) return std::nullopt;
      return round_float(t, (op == BinaryOp::Min) == (a < b) ? a : b);
    default: return std::nullopt;
  }
}

std::optional<bool> fold_float_compare(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::Eq: return a == b;
    case BinaryOp::Ne: return a != b;
    case BinaryOp::Lt: return a < b;
    case BinaryOp::Le: return a <= b;
    default: return std::nullopt;
  }
}

std::optional<int64_t> fold_int(UnaryOp op, DataType t, int64_t a) {
  switch (op) {
    case UnaryOp::Neg: return wrap_int(t, as_signed(0 - as_unsigned(a)));
    case UnaryOp::Not: return a == 0;
    case UnaryOp::BitNot: return wrap_int(t, ~a);
    case UnaryOp::Abs: return t.is_int() && a < 0 ? wrap_int(t, as_signed(0 - as_unsigned(a))) : a;
    default: return std::nullopt;
  }
}

std::optional<double> fold_float(UnaryOp op, DataType t, double a) {
  switch (op) {
    case UnaryOp::Neg: return -a;
    case UnaryOp::Abs: return std::fabs(a);
    case UnaryOp::Sqrt: return round_float(t, std::sqrt(a));
    case UnaryOp::Floor: return std::floor(a);
    case UnaryOp::Ceil: return std::ceil(a);
    case UnaryOp::Trunc: return std::trunc(a);
    case UnaryOp::Round: return std::nearbyint(a);
    case UnaryOp::RoundTf32: return rounded_to_tf32(a);
    default: return std::nullopt;
  }
}

}  // namespace heddle
