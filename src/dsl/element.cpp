#include <utility>

#include "heddle/dsl/tensor.h"

namespace heddle {

Expr select(Expr condition, Expr on_true, Expr on_false) {
  return make_select(std::move(condition), std::move(on_true), std::move(on_false));
}

Expr exp(Expr x) { return make_unary(UnaryOp::Exp, std::move(x)); }
Expr exp2(Expr x) { return make_unary(UnaryOp::Exp2, std::move(x)); }
Expr expm1(Expr x) { return make_unary(UnaryOp::Expm1, std::move(x)); }
Expr log(Expr x) { return make_unary(UnaryOp::Log, std::move(x)); }
Expr log2(Expr x) { return make_unary(UnaryOp::Log2, std::move(x)); }
Expr log10(Expr x) { return make_unary(UnaryOp::Log10, std::move(x)); }
Expr log1p(Expr x) { return make_unary(UnaryOp::Log1p, std::move(x)); }
Expr sqrt(Expr x) { return make_unary(UnaryOp::Sqrt, std::move(x)); }
Expr rsqrt(Expr x) { return make_unary(UnaryOp::Rsqrt, std::move(x)); }
Expr sin(Expr x) { return make_unary(UnaryOp::Sin, std::move(x)); }
Expr cos(Expr x) { return make_unary(UnaryOp::Cos, std::move(x)); }
Expr tan(Expr x) { return make_unary(UnaryOp::Tan, std::move(x)); }
Expr asin(Expr x) { return make_unary(UnaryOp::Asin, std::move(x)); }
Expr acos(Expr x) { return make_unary(UnaryOp::Acos, std::move(x)); }
Expr atan(Expr x) { return make_unary(UnaryOp::Atan, std::move(x)); }
Expr sinh(Expr x) { return make_unary(UnaryOp::Sinh, std::move(x)); }
Expr cosh(Expr x) { return make_unary(UnaryOp::Cosh, std::move(x)); }
Expr tanh(Expr x) { return make_unary(UnaryOp::Tanh, std::move(x)); }
Expr erf(Expr x) { return make_unary(UnaryOp::Erf, std::move(x)); }
Expr abs(Expr x) { return make_unary(UnaryOp::Abs, std::move(x)); }
Expr floor(Expr x) { return make_unary(UnaryOp::Floor, std::move(x)); }
Expr ceil(Expr x) { return make_unary(UnaryOp::Ceil, std::move(x)); }
Expr round(Expr x) { return make_unary(UnaryOp::Round, std::move(x)); }
Expr trunc(Expr x) { return make_unary(UnaryOp::Trunc, std::move(x)); }
Expr round_tf32(Expr x) { return make_unary(UnaryOp::RoundTf32, std::move(x)); }
Expr isnan(Expr x) { return make_unary(UnaryOp::IsNan, std::move(x)); }
Expr isinf(Expr x) { return make_unary(UnaryOp::IsInf, std::move(x)); }
Expr bitwise_not(Expr x) { return make_unary(UnaryOp::BitNot, std::move(x)); }

namespace {

/// `extreme` is max or min. It has brought its two operands to one type.
Expr drop_nan(const Expr& extreme) {
  const Binary* op = extreme.as<Binary>();
  if (!op || !extreme.dtype().is_float()) return extreme;
  const Expr first = op->op == BinaryOp::Max ? op->a >= op->b : op->a <= op->b;
  return select(first || isnan(op->b), op->a, op->b);
}

}  // namespace

Expr fmax(Expr a, Expr b) { return drop_nan(max(std::move(a), std::move(b))); }
Expr fmin(Expr a, Expr b) { return drop_nan(min(std::move(a), std::move(b))); }
Expr pow(Expr a, Expr b) { return make_binary(BinaryOp::Pow, std::move(a), std::move(b)); }
Expr atan2(Expr a, Expr b) { return make_binary(BinaryOp::Atan2, std::move(a), std::move(b)); }
Expr logical_and(Expr a, Expr b) { return make_binary(BinaryOp::And, std::move(a), std::move(b)); }
Expr logical_or(Expr a, Expr b) { return make_binary(BinaryOp::Or, std::move(a), std::move(b)); }
Expr bitwise_and(Expr a, Expr b) {
  return make_binary(BinaryOp::BitAnd, std::move(a), std::move(b));
}
Expr bitwise_or(Expr a, Expr b) { return make_binary(BinaryOp::BitOr, std::move(a), std::move(b)); }
Expr bitwise_xor(Expr a, Expr b) {
  return make_binary(BinaryOp::BitXor, std::move(a), std::move(b));
}
Expr shift_left(Expr a, Expr b) { return make_binary(BinaryOp::Shl, std::move(a), std::move(b)); }
Expr shift_right(Expr a, Expr b) { return make_binary(BinaryOp::Shr, std::move(a), std::move(b)); }

}  // namespace heddle
