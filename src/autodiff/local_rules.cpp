#include "autodiff/local_rules.h"

#include <cmath>
#include <numbers>
#include <optional>

#include "autodiff/derivative.h"
#include "heddle/dsl/tensor.h"

namespace heddle::autodiff {
namespace {

Expr number(const Expr& like, double value) { return make_const(like.dtype(), value); }

Expr square(const Expr& x) { return x * x; }

Expr unary(UnaryOp op, const Expr& a, const Expr& g, const Expr& y) {
  const Expr zero = number(a, 0), one = number(a, 1);
  const auto times = [&](const Expr& factor) { return product_of(g, factor); };
  switch (op) {
    case UnaryOp::Neg: return -g;
    case UnaryOp::RoundTf32: return g;  // as a cast
    case UnaryOp::Abs: return select(a > zero, g, select(a < zero, -g, zero));
    case UnaryOp::Exp: return times(y);
    case UnaryOp::Exp2: return times(y * number(a, std::numbers::ln2));
    case UnaryOp::Expm1: return times(y + one);
    case UnaryOp::Log: return g / a;
    case UnaryOp::Log2: return g / (a * number(a, std::numbers::ln2));
    case UnaryOp::Log10: return g / (a * number(a, std::numbers::ln10));
    case UnaryOp::Log1p: return g / (a + one);
    case UnaryOp::Sqrt: return g / (y + y);
    case UnaryOp::Rsqrt: return times(number(a, -0.5) * y * square(y));
    case UnaryOp::Sin: return times(cos(a));
    case UnaryOp::Cos: return times(-sin(a));
    case UnaryOp::Tan: return times(one + square(y));
    case UnaryOp::Asin: return times(rsqrt(one - square(a)));
    case UnaryOp::Acos: return times(-rsqrt(one - square(a)));
    case UnaryOp::Atan: return g / (one + square(a));
    case UnaryOp::Sinh: return times(cosh(a));
    case UnaryOp::Cosh: return times(sinh(a));
    case UnaryOp::Tanh: return times(one - square(y));
    case UnaryOp::Erf: return times(number(a, 2 * std::numbers::inv_sqrtpi) * exp(-square(a)));
    case UnaryOp::Not:
    case UnaryOp::BitNot:
    case UnaryOp::Floor:
    case UnaryOp::Ceil:
    case UnaryOp::Round:
    case UnaryOp::Trunc:
    case UnaryOp::IsNan:
    case UnaryOp::IsInf: break;
  }
  return {};
}

using Operands = std::vector<OperandDerivative>;

/// max or min. Beside a constant only what is strictly beyond it has a derivative,
/// as for relu; of two equal values each has one half. Beside a constant the result `y` says as much as the
/// operand, which then need not be kept for it.
Operands extreme(const Binary& op, bool is_max, const Expr& g, const Expr& y) {
  const Expr zero = number(g, 0);
  const auto loses = [&](const Expr& x, const Expr& other) {
    return is_max ? x < other : other < x;
  };
  const auto one_side = [&](const Expr& x, const Expr& other) {
    if (is_const(other)) return select(loses(other, y.as<Load>() ? y : x), g, zero);
    return select(loses(x, other), zero, select(x == other, g * number(g, 0.5), g));
  };
  return {{op.a, one_side(op.a, op.b)}, {op.b, one_side(op.b, op.a)}};
}

/// The operand u of `e`, which is exp(u) + constant in either order, and that constant.
struct ShiftedExp {
  Expr exponent, constant;
};
std::optional<ShiftedExp> as_shifted_exp(const Expr& e) {
  const Binary* add = e.as<Binary>();
  if (!add || add->op != BinaryOp::Add) return {};
  for (const auto& [power, constant] : {std::pair(add->a, add->b), std::pair(add->b, add->a)}) {
    const Unary* u = power.as<Unary>();
    if (u && u->op == UnaryOp::Exp && is_const(constant)) return ShiftedExp{u->a, constant};
  }
  return {};
}

/// a / b. Of a / (d + exp(u)), as in a sigmoid, the derivative by u is -y (1 - d / b): exp(u), which
/// may be infinite, is not a factor of it. d / b is y d / a where a is a number.
Operands quotient(const Binary& op, const Expr& g, const Expr& y) {
  const std::optional<ShiftedExp> below = as_shifted_exp(op.b);
  // Of 1 / b the derivative is -y * y, so that b need not be kept.
  if (!below) return {{op.a, g / op.b}, {op.b, -(is_const(op.a, 1) ? g * y * y : g * y / op.b)}};
  const FloatImm* a = op.a.as<FloatImm>();
  const FloatImm* d = below->constant.as<FloatImm>();
  const Expr share = a && d && a->value != 0 ? product_of(y, number(y, d->value / a->value))
                                             : below->constant / op.b;
  const Expr rest = share.defined() ? number(y, 1) - share : number(y, 1);
  return {{op.a, g / op.b}, {below->exponent, product_of(g, -(y * rest))}};
}

/// x of max(x, 0) + log1p(exp(-abs(x))), the stable form of log(1 + exp(x)); else null.
Expr softplus_operand(const Expr& a, const Expr& b) {
  const Binary* positive = a.as<Binary>();
  if (!positive || positive->op != BinaryOp::Max || !is_const(positive->b, 0)) return {};
  const Expr* at = &b;
  for (UnaryOp op : {UnaryOp::Log1p, UnaryOp::Exp, UnaryOp::Neg, UnaryOp::Abs}) {
    const Unary* u = at->as<Unary>();
    if (!u || u->op != op) return {};
    at = &u->a;
  }
  return equal(*at, positive->a) ? *at : Expr{};
}

Operands sum(const Binary& op, const Expr& g) {
  for (const auto& [a, b] : {std::pair(op.a, op.b), std::pair(op.b, op.a)}) {
    if (const Expr x = softplus_operand(a, b); x.defined())
      return {{x, product_of(g, number(g, 1) / (number(g, 1) + exp(-x)))}};
  }
  return {{op.a, g}, {op.b, g}};
}

Operands power(const Binary& op, const Expr& g, const Expr& y) {
  const Expr zero = number(g, 0);
  Operands result;
  if (const FloatImm* n = op.b.as<FloatImm>()) {
    if (n->value == 0) return {};
    const Expr factor = n->value == 1   ? number(g, 1)
                        : n->value == 2 ? op.a * number(g, 2)
                                        : op.b * pow(op.a, number(g, n->value - 1));
    return {{op.a, product_of(g, factor)}};
  }
  const Expr slope = g * (op.b * pow(op.a, op.b - number(g, 1)));
  return {{op.a, select(op.b == zero, zero, slope)},
          {op.b, select(op.a == zero && op.b >= zero, zero, g * (y * log(op.a)))}};
}

Operands binary(const Binary& op, const Expr& g, const Expr& y) {
  switch (op.op) {
    case BinaryOp::Add: return sum(op, g);
    case BinaryOp::Sub: return {{op.a, g}, {op.b, -g}};
    case BinaryOp::Mul: return {{op.a, product_of(g, op.b)}, {op.b, product_of(g, op.a)}};
    case BinaryOp::Div: return quotient(op, g, y);
    case BinaryOp::Mod: return {{op.a, g}, {op.b, -(g * trunc(op.a / op.b))}};
    case BinaryOp::Min: return extreme(op, false, g, y);
    case BinaryOp::Max: return extreme(op, true, g, y);
    case BinaryOp::Pow: return power(op, g, y);
    case BinaryOp::Atan2: {
      const Expr norm = square(op.a) + square(op.b);
      return {{op.a, g * (op.b / norm)}, {op.b, -(g * (op.a / norm))}};
    }
    case BinaryOp::FloorDiv:
    case BinaryOp::FloorMod:
    case BinaryOp::Eq:
    case BinaryOp::Ne:
    case BinaryOp::Lt:
    case BinaryOp::Le:
    case BinaryOp::And:
    case BinaryOp::Or:
    case BinaryOp::BitAnd:
    case BinaryOp::BitOr:
    case BinaryOp::BitXor:
    case BinaryOp::Shl:
    case BinaryOp::Shr: break;
  }
  return {};
}

}  // namespace

std::vector<OperandDerivative> operand_derivatives(const Expr& node, const Expr& g,
                                                   const Expr& value) {
  if (const Unary* u = node.as<Unary>()) return {{u->a, unary(u->op, u->a, g, value)}};
  if (const Binary* b = node.as<Binary>()) return binary(*b, g, value);
  if (const Cast* c = node.as<Cast>()) return {{c->value, cast(c->value.dtype(), g)}};
  return {};
}

}  // namespace heddle::autodiff
