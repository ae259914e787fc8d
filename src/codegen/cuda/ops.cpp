#include "codegen/cuda/ops.h"

#include "codegen/cuda/text/types.h"
#include "heddle/support/error.h"

namespace heddle::cuda {
namespace {

[[noreturn]] void no_code(const std::string& op, DataType t) {
  throw_internal_error("no CUDA code for " + op + " of " + to_string(t));
}

bool is_power_of_two(int64_t v) { return v > 0 && (v & (v - 1)) == 0; }

int log2_of(int64_t power_of_two) { return __builtin_ctzll(static_cast<uint64_t>(power_of_two)); }

Text number(int64_t v) { return {std::to_string(v), v < 0 ? kUnary : kAtom}; }

/// CUDA's function for f32. The one for f64 has the same name without the last letter. Null where
/// an operator or a helper is used instead.
const char* function_of(UnaryOp op) {
  switch (op) {
    case UnaryOp::Abs: return "fabsf";
    case UnaryOp::Exp: return "expf";
    case UnaryOp::Exp2: return "exp2f";
    case UnaryOp::Expm1: return "expm1f";
    case UnaryOp::Log: return "logf";
    case UnaryOp::Log2: return "log2f";
    case UnaryOp::Log10: return "log10f";
    case UnaryOp::Log1p: return "log1pf";
    case UnaryOp::Sqrt: return "sqrtf";
    case UnaryOp::Rsqrt: return "rsqrtf";
    case UnaryOp::Sin: return "sinf";
    case UnaryOp::Cos: return "cosf";
    case UnaryOp::Tan: return "tanf";
    case UnaryOp::Asin: return "asinf";
    case UnaryOp::Acos: return "acosf";
    case UnaryOp::Atan: return "atanf";
    case UnaryOp::Sinh: return "sinhf";
    case UnaryOp::Cosh: return "coshf";
    case UnaryOp::Tanh: return "tanhf";
    case UnaryOp::Erf: return "erff";
    case UnaryOp::Floor: return "floorf";
    case UnaryOp::Ceil: return "ceilf";
    case UnaryOp::Round: return "rintf";  // half to even
    case UnaryOp::Trunc: return "truncf";
    case UnaryOp::Neg:
    case UnaryOp::Not:
    case UnaryOp::BitNot:
    case UnaryOp::IsNan:
    case UnaryOp::IsInf:
    case UnaryOp::RoundTf32: return nullptr;
  }
  return nullptr;
}

/// The helper for f32 that is faster than CUDA's function, where results may round otherwise; null
/// where there is none.
const char* loose_helper(UnaryOp op) {
  switch (op) {
    case UnaryOp::Sqrt: return "sqrt_f32";
    case UnaryOp::Exp2: return "exp2_f32";
    case UnaryOp::Erf: return "erf_f32";
    case UnaryOp::Tanh: return "tanh_f32";
    default: return nullptr;
  }
}

}  // namespace

Text Ops::widen(DataType t, const Text& bits) { return helper("f32_from_" + to_string(t), bits); }

Text Ops::narrow(DataType t, const Text& value) {
  return helper(to_string(t) + "_from_f32", value);
}

// ---- floats ----

Text Ops::float_binary(BinaryOp op, DataType t, const Text& a, const Text& b, Rounding rounding) {
  const bool strict = rounding == Rounding::Strict, single = t == f32;
  const std::string suffix = single ? "f" : "";
  switch (op) {
    case BinaryOp::Add: return infix(a, "+", b, kSum);
    case BinaryOp::Sub: return infix(a, "-", b, kSum);
    case BinaryOp::Mul:
      // A strict product must not be contracted with a sum to a fused multiply-add.
      if (strict) return call(single ? "__fmul_rn" : "__dmul_rn", a, b);
      return infix(a, "*", b, kProduct);
    case BinaryOp::Div:
      if (!single) return infix(a, "/", b, kProduct);
      return strict ? call("__fdiv_rn", a, b) : helper("div_f32", a, b);
    case BinaryOp::Mod: return call("fmod" + suffix, a, b);
    case BinaryOp::Min: return helper(single ? "min_f32" : "min_f64", a, b);
    case BinaryOp::Max: return helper(single ? "max_f32" : "max_f64", a, b);
    case BinaryOp::Pow: return call("pow" + suffix, a, b);
    case BinaryOp::Atan2: return call("atan2" + suffix, a, b);
    default: no_code(to_string(op), t);
  }
}

Text Ops::float_unary(UnaryOp op, DataType t, const Text& a, Rounding rounding) {
  const bool single = t == f32;
  switch (op) {
    case UnaryOp::Neg: return {"-" + a.at(kAtom), kUnary};
    case UnaryOp::IsNan: return call("isnan", a);
    case UnaryOp::IsInf: return call("isinf", a);
    case UnaryOp::RoundTf32:
      if (single) return helper("tf32_from_f32", a);
      return converted("double", helper("tf32_from_f32", converted("float", a)));
    default: break;
  }
  const char* loose = single && rounding == Rounding::Loose ? loose_helper(op) : nullptr;
  if (loose) return helper(loose, a);
  const char* name = function_of(op);
  if (!name) no_code(to_string(op), t);
  std::string function = name;
  if (!single) function.pop_back();
  return call(function, a);
}

// ---- integers ----

Text Ops::int_divide(BinaryOp op, DataType t, const Text& a, const Text& b, const IntFacts& facts) {
  const bool quotient = op == BinaryOp::Div || op == BinaryOp::FloorDiv;
  const bool floor = op == BinaryOp::FloorDiv || op == BinaryOp::FloorMod;
  const bool wide = t.bits == 64;
  const char* sign = quotient ? "/" : "%";
  if (t.is_uint()) return infix(a, sign, b, kProduct);
  if (facts.divisor && *facts.divisor > 0) {
    const int64_t c = *facts.divisor;
    // A shift and a mask round down.
    if (is_power_of_two(c) && (floor || facts.nonnegative)) {
      return quotient ? infix(a, ">>", number(log2_of(c)), kShift)
                      : infix(a, "&", number(c - 1), kBitAnd);
    }
    // An unsigned division takes fewer instructions than a signed one.
    if (facts.nonnegative) {
      const Text divisor{std::to_string(c) + (wide ? "ull" : "u"), kAtom};
      return converted(
          wide ? "long long" : "int",
          infix(converted(wide ? "unsigned long long" : "unsigned", a), sign, divisor, kProduct));
    }
  }
  if (facts.nonnegative && facts.positive) return infix(a, sign, b, kProduct);
  if (!floor && facts.divisor && *facts.divisor != 0 && *facts.divisor != -1) {
    return infix(a, sign, b, kProduct);
  }
  const std::string name = std::string(floor ? "floor_" : "") + (quotient ? "div" : "mod");
  return helper(name + (wide ? "_i64" : "_i32"), a, b);
}

// Computed in the width of `t`; types under 32 bits are computed as int.
Text Ops::int_binary(BinaryOp op, DataType t, const Text& a, const Text& b, const IntFacts& facts) {
  const bool wide = t.bits == 64;
  const auto wrapping = [&](const char* sign, Precedence p, const char* name) {
    // A product of two u16 is too large for the int that C++ computes it in.
    if (t == u16 && p == kProduct) return infix(converted("unsigned", a), sign, b, p);
    if (t.is_uint() || t.bits < 32 || facts.exact) return infix(a, sign, b, p);
    return helper(std::string(name) + (wide ? "_i64" : "_i32"), a, b);
  };
  const Text amount = facts.divisor ? b : infix(b, "&", number(t.bits - 1), kBitAnd);
  switch (op) {
    case BinaryOp::Add:
      if (facts.divisor && *facts.divisor < 0 && *facts.divisor > INT32_MIN && facts.exact) {
        return infix(a, "-", number(-*facts.divisor), kSum);
      }
      return wrapping("+", kSum, "add");
    case BinaryOp::Sub: return wrapping("-", kSum, "sub");
    case BinaryOp::Mul: return wrapping("*", kProduct, "mul");
    case BinaryOp::Div:
    case BinaryOp::Mod:
    case BinaryOp::FloorDiv:
    case BinaryOp::FloorMod: return int_divide(op, t, a, b, facts);
    case BinaryOp::Min: return call("min", a, b);
    case BinaryOp::Max: return call("max", a, b);
    case BinaryOp::BitAnd: return infix(a, "&", b, kBitAnd);
    case BinaryOp::BitOr: return infix(a, "|", b, kBitOr);
    case BinaryOp::BitXor: return infix(a, "^", b, kBitXor);
    case BinaryOp::Shl:
      if (t.is_int() && t.bits >= 32 && !facts.exact) {
        return converted(value_type(t),
                         infix(converted("unsigned" + std::string(wide ? " long long" : ""), a),
                               "<<", amount, kShift));
      }
      return infix(a, "<<", amount, kShift);
    case BinaryOp::Shr: return infix(a, ">>", amount, kShift);
    default: no_code(to_string(op), t);
  }
}

Text Ops::binary(BinaryOp op, DataType t, const Text& a, const Text& b, const IntFacts& facts,
                 Rounding rounding) {
  switch (op) {
    case BinaryOp::Eq: return infix(a, "==", b, kEquality);
    case BinaryOp::Ne: return infix(a, "!=", b, kEquality);
    case BinaryOp::Lt: return infix(a, "<", b, kRelation);
    case BinaryOp::Le: return infix(a, "<=", b, kRelation);
    case BinaryOp::And: return infix(a, "&&", b, kAnd);
    case BinaryOp::Or: return infix(a, "||", b, kOr);
    default: break;
  }
  if (is_small_float(t)) return float_binary(op, f32, a, b, rounding);
  if (t.is_float()) return float_binary(op, t, a, b, rounding);
  if (t.is_bool()) {
    if (op == BinaryOp::BitAnd) return infix(a, "&&", b, kAnd);
    if (op == BinaryOp::BitOr) return infix(a, "||", b, kOr);
    if (op == BinaryOp::BitXor) return infix(a, "!=", b, kEquality);
    no_code(to_string(op), t);
  }
  if (t.bits < 32) return converted(value_type(t), int_binary(op, t, a, b, facts));
  if (t != i64) return int_binary(op, t, a, b, facts);
  // An i64 operation is done on int where int holds the operands and the result.
  if (facts.narrow && !a.wide && !b.wide) {
    IntFacts exact = facts;
    exact.exact = true;
    return int_binary(op, i32, a, b, exact);
  }
  const auto widened = [](const Text& x) { return x.wide ? x : converted("long long", x); };
  // C++ widens a sum or product when one operand is wide. The type of a shift is that of its left
  // operand.
  const bool either = op == BinaryOp::Add || op == BinaryOp::Sub || op == BinaryOp::Mul;
  const bool both = op == BinaryOp::Min || op == BinaryOp::Max;
  Text r = int_binary(op, t, either && b.wide ? a : widened(a), both ? widened(b) : b, facts);
  if (facts.narrow) return converted("int", r);
  r.wide = true;
  return r;
}

Text Ops::unary(UnaryOp op, DataType t, const Text& a, const IntFacts& facts, Rounding rounding) {
  if (is_small_float(t)) return float_unary(op, f32, a, rounding);
  if (t.is_float()) return float_unary(op, t, a, rounding);
  const bool small = t.bits < 32, wide = t == i64 && (a.wide || !facts.narrow);
  const char* suffix = wide || t == u64 ? "_i64" : "_i32";
  Text r;
  switch (op) {
    case UnaryOp::Not: return {"!" + a.at(kUnary), kUnary};
    case UnaryOp::BitNot: r = {"~" + a.at(kUnary), kUnary}; break;
    case UnaryOp::Neg:
      r = t.is_uint() || small || facts.exact ? Text{"-" + a.at(kAtom), kUnary}
                                              : helper(std::string("sub") + suffix, number(0), a);
      break;
    case UnaryOp::Abs: r = t.is_uint() ? a : helper(std::string("abs") + suffix, a); break;
    case UnaryOp::Floor:
    case UnaryOp::Ceil:
    case UnaryOp::Round:
    case UnaryOp::Trunc: return a;
    case UnaryOp::IsNan:
    case UnaryOp::IsInf: return {"false", kAtom};
    default: no_code(to_string(op), t);
  }
  if (small) return converted(value_type(t), r);
  // The negative of the lowest int does not fit an int, so it is computed in 64 bits.
  if (wide && !a.wide && op == UnaryOp::Neg && facts.exact) {
    r = {"-" + converted("long long", a).at(kAtom), kUnary};
  }
  r.wide = wide;
  if (wide && facts.narrow) return converted("int", r);
  return r;
}

// ---- conversions ----

Text Ops::cast(DataType from, DataType to, const Text& a, bool fits_32_bits) {
  if (from == to) return a;
  if (to.is_bool()) {
    const Text zero = from.is_float() ? float_literal(from, 0) : number(0);
    return infix(a, "!=", zero, kEquality);
  }
  if (from.is_float()) {
    if (is_small_float(to)) {
      return from == f32 ? narrow(to, a) : helper(to_string(to) + "_from_f64", a);
    }
    if (to.is_float()) return converted(value_type(to), a);
    Text r = helper(to_string(to) + "_from_" + to_string(from), a);
    r.wide = to == i64;
    return r;
  }
  if (is_small_float(to)) {
    // f32 holds integers of up to 16 bits exactly. f64 holds all but large 64-bit integers.
    if (from.bits <= 16) return narrow(to, converted("float", a));
    return helper(to_string(to) + "_from_f64", converted("double", a));
  }
  if (to == i64) {
    if (from == i32) return a;
    if (fits_32_bits || from.bits < 32) return converted("int", a);
    Text r = converted("long long", a);
    r.wide = true;
    return r;
  }
  if (to == i32 && from == i64 && !a.wide) return a;
  return converted(value_type(to), a);
}

}  // namespace heddle::cuda
