// The operators of expressions, the names of operations, and tests of constants.
#include <string>

#include "heddle/ir/expr.h"
#include "heddle/support/error.h"

namespace heddle {

const char* to_string(UnaryOp op) {
  switch (op) {
    case UnaryOp::Neg: return "-";
    case UnaryOp::Not: return "!";
    case UnaryOp::BitNot: return "~";
    case UnaryOp::Abs: return "abs";
    case UnaryOp::Exp: return "exp";
    case UnaryOp::Exp2: return "exp2";
    case UnaryOp::Expm1: return "expm1";
    case UnaryOp::Log: return "log";
    case UnaryOp::Log2: return "log2";
    case UnaryOp::Log10: return "log10";
    case UnaryOp::Log1p: return "log1p";
    case UnaryOp::Sqrt: return "sqrt";
    case UnaryOp::Rsqrt: return "rsqrt";
    case UnaryOp::Sin: return "sin";
    case UnaryOp::Cos: return "cos";
    case UnaryOp::Tan: return "tan";
    case UnaryOp::Asin: return "asin";
    case UnaryOp::Acos: return "acos";
    case UnaryOp::Atan: return "atan";
    case UnaryOp::Sinh: return "sinh";
    case UnaryOp::Cosh: return "cosh";
    case UnaryOp::Tanh: return "tanh";
    case UnaryOp::Erf: return "erf";
    case UnaryOp::Floor: return "floor";
    case UnaryOp::Ceil: return "ceil";
    case UnaryOp::Round: return "round";
    case UnaryOp::Trunc: return "trunc";
    case UnaryOp::IsNan: return "isnan";
    case UnaryOp::IsInf: return "isinf";
    case UnaryOp::RoundTf32: return "round_tf32";
  }
  return "?";
}

const char* to_string(BinaryOp op) {
  switch (op) {
    case BinaryOp::Add: return "+";
    case BinaryOp::Sub: return "-";
    case BinaryOp::Mul: return "*";
    case BinaryOp::Div: return "/";
    case BinaryOp::FloorDiv: return "floordiv";
    case BinaryOp::FloorMod: return "floormod";
    case BinaryOp::Mod: return "%";
    case BinaryOp::Min: return "min";
    case BinaryOp::Max: return "max";
    case BinaryOp::Pow: return "pow";
    case BinaryOp::Atan2: return "atan2";
    case BinaryOp::Eq: return "==";
    case BinaryOp::Ne: return "!=";
    case BinaryOp::Lt: return "<";
    case BinaryOp::Le: return "<=";
    case BinaryOp::And: return "&&";
    case BinaryOp::Or: return "||";
    case BinaryOp::BitAnd: return "&";
    case BinaryOp::BitOr: return "|";
    case BinaryOp::BitXor: return "^";
    case BinaryOp::Shl: return "<<";
    case BinaryOp::Shr: return ">>";
  }
  return "?";
}

#define HEDDLE_BINARY_FUNCTION(name, op) \
  Expr name(Expr a, Expr b) { return make_binary(BinaryOp::op, std::move(a), std::move(b)); }
#define HEDDLE_CONDITION(name, op)                                           \
  Condition name(Expr a, Expr b) {                                           \
    return Condition(make_binary(BinaryOp::op, std::move(a), std::move(b))); \
  }
HEDDLE_BINARY_FUNCTION(operator+, Add)
HEDDLE_BINARY_FUNCTION(operator-, Sub)
HEDDLE_BINARY_FUNCTION(operator*, Mul)
HEDDLE_CONDITION(operator==, Eq)
HEDDLE_CONDITION(operator!=, Ne)
HEDDLE_CONDITION(operator<, Lt)
HEDDLE_CONDITION(operator<=, Le)
HEDDLE_CONDITION(operator&&, And)
HEDDLE_CONDITION(operator||, Or)
HEDDLE_BINARY_FUNCTION(min, Min)
HEDDLE_BINARY_FUNCTION(max, Max)
#undef HEDDLE_BINARY_FUNCTION
#undef HEDDLE_CONDITION

namespace {

/// A division written by a user. A pass, unlike a user, may produce x / 0 in an expression that is
/// never evaluated.
Expr quotient(BinaryOp op, Expr a, Expr b) {
  const int64_t* divisor = b.defined() && b.dtype().is_integral() ? as_int(b) : nullptr;
  if (divisor && *divisor == 0 && a.defined() && a.dtype().is_integral())
    throw_user_error(std::string("the integer division '") + to_string(op) + "' is by 0", {},
                     "divide by something else; floats may be divided by 0.0f");
  return make_binary(op, std::move(a), std::move(b));
}

}  // namespace

Expr operator/(Expr a, Expr b) { return quotient(BinaryOp::Div, std::move(a), std::move(b)); }
Expr operator%(Expr a, Expr b) { return quotient(BinaryOp::Mod, std::move(a), std::move(b)); }
Expr floordiv(Expr a, Expr b) { return quotient(BinaryOp::FloorDiv, std::move(a), std::move(b)); }
Expr floormod(Expr a, Expr b) { return quotient(BinaryOp::FloorMod, std::move(a), std::move(b)); }
Condition operator>(Expr a, Expr b) { return std::move(b) < std::move(a); }
Condition operator>=(Expr a, Expr b) { return std::move(b) <= std::move(a); }
Expr operator-(Expr a) { return make_unary(UnaryOp::Neg, std::move(a)); }
Condition operator!(Expr a) { return Condition(make_unary(UnaryOp::Not, std::move(a))); }

const int64_t* as_int(const Expr& e) {
  if (const IntImm* imm = e.as<IntImm>()) return &imm->value;
  if (const Broadcast* b = e.as<Broadcast>()) return as_int(b->value);
  return nullptr;
}

bool is_const(const Expr& e) {
  if (!e.defined()) return false;
  if (e.kind() == ExprKind::IntImm || e.kind() == ExprKind::FloatImm) return true;
  const Broadcast* b = e.as<Broadcast>();
  return b && is_const(b->value);
}

bool is_const(const Expr& e, double value) {
  if (const IntImm* imm = e.as<IntImm>()) return static_cast<double>(imm->value) == value;
  if (const FloatImm* imm = e.as<FloatImm>()) return imm->value == value;
  const Broadcast* b = e.as<Broadcast>();
  return b && is_const(b->value, value);
}

}  // namespace heddle
