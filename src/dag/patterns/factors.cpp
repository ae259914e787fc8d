#include "heddle/dag/factors.h"

namespace heddle {
namespace {

bool is_rounding(const Expr& e) {
  const Unary* u = e.as<Unary>();
  return u && u->op == UnaryOp::RoundTf32;
}

}  // namespace

const Load* read_of_factor(const Expr& factor) {
  if (const auto* c = factor.as<Cast>()) return c->value.as<Load>();
  return (is_rounding(factor) ? factor.as<Unary>()->a : factor).as<Load>();
}

Expr factor_of(const Expr& factor, const Expr& read) {
  if (is_rounding(factor)) return make_unary(UnaryOp::RoundTf32, read);
  return factor.dtype() == read.dtype() ? read : cast(factor.dtype(), read);
}

bool rounds_factors(const Expr& e) {
  const Binary* product = e.as<Binary>();
  return product && product->op == BinaryOp::Mul && is_rounding(product->a) &&
         is_rounding(product->b);
}

}  // namespace heddle
