// Comparisons of i64 scalars, as "a linear form is negative" or "is zero".
#include <optional>

#include "ir/fold.h"
#include "ir/simplify/simplifier.h"

namespace heddle {
namespace {

/// The terms with positive coefficients, or the negated terms with negative coefficients.
Linear side(const Linear& d, bool positive) {
  Linear out;
  for (const LinearTerm& t : d.terms) {
    if ((t.coefficient > 0) == positive) out.add(t.expr, positive ? t.coefficient : -t.coefficient);
  }
  return out;
}

/// x/c + rest < 0 becomes x + c*rest < 0, and rest - x/c < 0 becomes c*rest + c - 1 - x < 0.
/// Returns false unless exactly one term is a quotient.
bool multiply_out(Linear& d) {
  const LinearTerm* found = nullptr;
  for (const LinearTerm& t : d.terms) {
    const Binary* b = t.expr.as<Binary>();
    if (!b || b->op != BinaryOp::FloorDiv) continue;
    if (found) return false;
    found = &t;
  }
  if (!found || (found->coefficient != 1 && found->coefficient != -1)) return false;
  const Binary* b = found->expr.as<Binary>();
  const int64_t* c = as_int(b->b);
  if (!c || *c <= 0) return false;
  Linear out = d;
  out.add(found->expr, -found->coefficient);
  out.scale(*c);
  out.add(canonical_linear(b->a), found->coefficient);
  if (found->coefficient == -1) out.add_constant(*c - 1);
  out.normalize();
  if (out.overflow) return false;
  d = std::move(out);
  return true;
}

/// min(p, q) + rest < 0 becomes p + rest < 0 or q + rest < 0. A maximum gives "and", and a negative
/// coefficient exchanges the two. Returns nothing unless exactly one term is a minimum or maximum.
std::optional<BinaryOp> split_minimum(Linear& d, Linear& other) {
  const LinearTerm* found = nullptr;
  for (const LinearTerm& t : d.terms) {
    const Binary* b = t.expr.as<Binary>();
    if (!b || (b->op != BinaryOp::Min && b->op != BinaryOp::Max)) continue;
    if (found) return std::nullopt;
    found = &t;
  }
  if (!found) return std::nullopt;
  const LinearTerm term = *found;
  const Binary* b = term.expr.as<Binary>();
  Linear rest = d;
  rest.add(term.expr, -term.coefficient);
  other = rest;
  rest.add(canonical_linear(b->a), term.coefficient);
  other.add(canonical_linear(b->b), term.coefficient);
  rest.normalize();
  other.normalize();
  if (rest.overflow || other.overflow) return std::nullopt;
  d = std::move(rest);
  return (b->op == BinaryOp::Min) == (term.coefficient > 0) ? BinaryOp::Or : BinaryOp::And;
}

}  // namespace

Expr Simplifier::compare_i64(BinaryOp op, const Expr& a, const Expr& b) {
  Linear d = linear(a);
  d.add(linear(b), -1);
  if (op == BinaryOp::Le) d.add_constant(-1);
  if (d.overflow) return make_binary(op, expr(a), expr(b));
  if (op == BinaryOp::Lt || op == BinaryOp::Le) return less_than_zero(std::move(d));
  Expr result = equal_to_zero(std::move(d));
  return op == BinaryOp::Eq ? result : negation(result);
}

Expr Simplifier::less_than_zero(Linear d) {
  finish(d);
  if (d.overflow) return make_binary(BinaryOp::Lt, to_expr(d), 0);
  const Interval r = range(d);
  if (r.max < 0) return true;
  if (r.min >= 0) return false;
  const int64_t g = gcd_of_coefficients(d);
  if (g > 1) {
    for (LinearTerm& t : d.terms) t.coefficient /= g;
    d.constant = floor_div(d.constant, g);
    return less_than_zero(std::move(d));
  }
  // g*m + s < 0 with s in [0, g) is m < 0.
  Linear m, s;
  if (int64_t factor; split_by_factor(d, 0, m, s, factor)) {
    return less_than_zero(std::move(m));
  }
  if (multiply_out(d)) return less_than_zero(std::move(d));
  if (Linear other; const std::optional<BinaryOp> op = split_minimum(d, other)) {
    return expr(make_binary(*op, less_than_zero(std::move(d)), less_than_zero(std::move(other))));
  }
  Linear left = side(d, true), right = side(d, false);
  if (left.is_constant() && d.constant != INT64_MAX) {
    return make_binary(BinaryOp::Le, d.constant + 1, to_expr(right));
  }
  if (!right.is_constant() && d.constant == -1) {
    return make_binary(BinaryOp::Le, to_expr(left), to_expr(right));
  }
  if (right.is_constant() || d.constant < 0) {
    right.add_constant(d.constant, -1);
  } else {
    left.add_constant(d.constant);
  }
  return make_binary(BinaryOp::Lt, to_expr(left), to_expr(right));
}

Expr Simplifier::equal_to_zero(Linear d) {
  finish(d);
  const Interval r = range(d);
  if (r.is_point() && r.min == 0) return true;
  if (r.min > 0 || r.max < 0) return false;
  const int64_t g = gcd_of_coefficients(d);
  if (g > 1) {
    if (d.constant % g != 0) return false;
    for (LinearTerm& t : d.terms) t.coefficient /= g;
    d.constant /= g;
  }
  // Of d and -d the form whose first term is positive is taken. Minima are skipped, because they
  // may still change with the constant.
  const LinearTerm* leading = &d.terms[0];
  for (const LinearTerm& t : d.terms) {
    const Binary* b = t.expr.as<Binary>();
    if (b && (b->op == BinaryOp::Min || b->op == BinaryOp::Max)) continue;
    leading = &t;
    break;
  }
  if (leading->coefficient < 0) {
    d.scale(-1);
    finish(d);
  }
  Linear left = side(d, true), right = side(d, false);
  if (right.is_constant() || d.constant < 0) {
    right.add_constant(d.constant, -1);
  } else {
    left.add_constant(d.constant);
  }
  return make_binary(BinaryOp::Eq, to_expr(left), to_expr(right));
}

}  // namespace heddle
