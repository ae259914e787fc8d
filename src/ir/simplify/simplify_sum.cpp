// i64 scalars as canonical sums.
#include <algorithm>

#include "ir/fold.h"
#include "ir/simplify/simplifier.h"
#include "ir/simplify/simplify_rules.h"

namespace heddle {
namespace {

const Binary* as_binary(const Expr& e, BinaryOp op) {
  const Binary* b = e.as<Binary>();
  return b && b->op == op ? b : nullptr;
}

/// The positive constant divisor of a FloorDiv or FloorMod, else 0.
int64_t divisor(const Binary* b) {
  const int64_t* c = b ? as_int(b->b) : nullptr;
  return c && *c > 0 ? *c : 0;
}

void factors_of(const Expr& e, std::vector<Expr>& out) {
  if (const Binary* m = as_binary(e, BinaryOp::Mul)) {
    factors_of(m->a, out);
    factors_of(m->b, out);
  } else {
    out.push_back(e);
  }
}

/// x * y as one canonical term: factors in order, sums first (a sum next to a plain factor would be
/// multiplied out when read again).
Expr multiply_terms(const Expr& x, const Expr& y) {
  std::vector<Expr> factors;
  factors_of(x, factors);
  factors_of(y, factors);
  const auto is_sum = [](const Expr& e) {
    return as_binary(e, BinaryOp::Add) || as_binary(e, BinaryOp::Sub);
  };
  std::sort(factors.begin(), factors.end(), [&](const Expr& a, const Expr& b) {
    return is_sum(a) != is_sum(b) ? is_sum(a) : compare(a, b) < 0;
  });
  Expr result = factors[0];
  for (size_t i = 1; i < factors.size(); ++i) {
    result = make_binary(BinaryOp::Mul, std::move(result), factors[i]);
  }
  return result;
}

/// Whether `a` contains times*x, every term of it and perhaps not its constant.
bool contains(const Linear& a, const Linear& x, int64_t times) {
  for (const LinearTerm& t : x.terms) {
    int64_t want;
    if (__builtin_mul_overflow(t.coefficient, times, &want)) return false;
    if (a.coefficient(t.expr) != want) return false;
  }
  return true;
}

}  // namespace

Linear Simplifier::linear(const Expr& e) {
  // The graph may stand for an exponentially larger sum of products.
  const bool leaf = e.kind() == ExprKind::Var || e.kind() == ExprKind::IntImm;
  if (leaf || !e->shared() || visits_ < kMostBeforeSharing) return linear_node(e);
  return canonical_linear(expr(e));
}

Linear Simplifier::linear_node(const Expr& e) {
  ++visits_;
  Linear out;
  collect_node(e, 1, out);
  finish(out);
  return out;
}

void Simplifier::collect(const Expr& e, int64_t times, Linear& out) {
  const bool leaf = e.kind() == ExprKind::Var || e.kind() == ExprKind::IntImm;
  if (!leaf && e->shared()) return collect_canonical(expr(e), times, out);
  collect_node(e, times, out);
}

/// a * b; notes an overflow in `out`.
static int64_t multiplied(int64_t a, int64_t b, Linear& out) {
  int64_t k;
  out.overflow |= __builtin_mul_overflow(a, b, &k);
  return k;
}

void Simplifier::collect_node(const Expr& e, int64_t times, Linear& out) {
  switch (e.kind()) {
    case ExprKind::IntImm: return out.add_constant(e.as<IntImm>()->value, times);
    case ExprKind::Unary: {
      const Unary& u = *e.as<Unary>();
      if (u.op == UnaryOp::Neg) return collect(u.a, multiplied(times, -1, out), out);
      if (u.op == UnaryOp::Abs) {
        Linear x = linear(u.a);
        const Interval r = range(x);
        if (r.min >= 0) return out.add(x, times);
        if (r.max <= 0) {
          x.scale(-1);
          return out.add(x, times);
        }
        return collect_canonical(make_unary(UnaryOp::Abs, to_expr(x)), times, out);
      }
      break;
    }
    case ExprKind::Binary: {
      const Binary& b = *e.as<Binary>();
      const int64_t* c = as_int(b.b);
      switch (b.op) {
        case BinaryOp::Add: collect(b.a, times, out); return collect(b.b, times, out);
        case BinaryOp::Sub:
          collect(b.a, times, out);
          return collect(b.b, multiplied(times, -1, out), out);
        case BinaryOp::Mul:
          if (c) return collect(b.a, multiplied(times, *c, out), out);
          return out.add(product(linear(b.a), linear(b.b)), times);
        case BinaryOp::Div:
        case BinaryOp::Mod:
        case BinaryOp::FloorDiv:
        case BinaryOp::FloorMod: return out.add(divmod(b.op, b.a, b.b), times);
        case BinaryOp::Min:
        case BinaryOp::Max: return out.add(minmax(b.op, linear(b.a), linear(b.b)), times);
        case BinaryOp::Shl:
          if (!c || *c < 0 || *c > 62) break;
          return collect(b.a, multiplied(times, int64_t{1} << *c, out), out);
        case BinaryOp::Shr:
          if (!c || *c < 0 || *c > 62) break;
          return out.add(floor_divide(linear(b.a), int64_t{1} << *c), times);
        case BinaryOp::BitAnd:
          if (!c || *c <= 0 || *c == INT64_MAX || ((*c + 1) & *c) != 0) break;
          return out.add(floor_modulo(linear(b.a), *c + 1), times);
        default: break;
      }
      const Expr mapped = map_children(e, [this](const Expr& child) { return expr(child); });
      return collect_canonical(mapped, times, out);
    }
    default: break;
  }
  collect_canonical(expr(e), times, out);
}

Linear Simplifier::product(const Linear& a, const Linear& b) {
  Linear out;
  if (a.is_constant() || b.is_constant()) {
    out.add(a.is_constant() ? b : a, a.is_constant() ? a.constant : b.constant);
    out.overflow |= a.overflow || b.overflow;
    return out;
  }
  out.overflow = a.overflow || b.overflow;
  const size_t na = a.terms.size() + (a.constant != 0), nb = b.terms.size() + (b.constant != 0);
  // A multiplied-out product lets equal terms cancel, but it must not become a long sum.
  if (na * nb > 4 && na != 1 && nb != 1) {
    Expr x = to_expr(a), y = to_expr(b);
    out.add(multiply_terms(x, y), 1);
    return out;
  }
  for (const LinearTerm& x : a.terms) {
    for (const LinearTerm& y : b.terms) {
      int64_t k;
      out.overflow |= __builtin_mul_overflow(x.coefficient, y.coefficient, &k);
      out.add(multiply_terms(x.expr, y.expr), k);
    }
  }
  for (const auto& [terms, k] :
       {std::pair{&a.terms, b.constant}, std::pair{&b.terms, a.constant}}) {
    for (const LinearTerm& t : *terms) {
      int64_t c;
      out.overflow |= __builtin_mul_overflow(t.coefficient, k, &c);
      out.add(t.expr, c);
    }
  }
  out.add_constant(a.constant, b.constant);
  out.normalize();
  return out;
}

Interval Simplifier::range(const Linear& a) {
  if (a.overflow) return {};
  Interval r{a.constant, a.constant};
  for (const LinearTerm& t : a.terms) {
    r = heddle::add(r, multiply(structural_range(t.expr, ranges_), t.coefficient));
  }
  return facts_.empty() || a.terms.empty() ? r : refine_by_facts(a, r);
}

void Simplifier::finish(Linear& a) {
  a.normalize();
  if (a.overflow || a.terms.empty()) return;
  const auto any = [&](BinaryOp x, BinaryOp y) {
    return std::any_of(a.terms.begin(), a.terms.end(), [&](const LinearTerm& t) {
      return as_binary(t.expr, x) || as_binary(t.expr, y);
    });
  };
  if (a.terms.size() > 1 && any(BinaryOp::FloorDiv, BinaryOp::FloorMod)) {
    while (recombine_remainder(a) || recombine_by_size(a)) {
    }
  }
  if ((a.terms.size() > 1 || a.constant != 0) && any(BinaryOp::Min, BinaryOp::Max)) {
    for (int i = 0; i < 4 && absorb_into_minimum(a); ++i) {
    }
  }
}

// x/e*e + x%e --> x, times any k, where e is no constant: rows whose length a call gives.
bool Simplifier::recombine_by_size(Linear& a) {
  for (const LinearTerm& t : a.terms) {
    const Binary* mod = as_binary(t.expr, BinaryOp::FloorMod);
    if (!mod || as_int(mod->b)) continue;
    const Linear by = canonical_linear(mod->b);
    if (range(by).min <= 0) continue;
    const Expr quotient = make_binary(BinaryOp::FloorDiv, mod->a, mod->b);
    const Linear whole = product(Linear(quotient, 1), by);
    const int64_t k = t.coefficient;
    if (whole.overflow || whole.constant != 0 || !contains(a, whole, k)) continue;
    Linear result = a;
    result.add(t.expr, -k);
    result.add(whole, -k);
    result.add(canonical_linear(mod->a), k);
    result.normalize();
    if (result.overflow || k == INT64_MIN) continue;
    a = std::move(result);
    return true;
  }
  return false;
}

// The dividends y of y/c and (y/c + z)%d among the terms of a that stand for the digit above the
// remainder `t` of a division by c.
std::vector<Linear> Simplifier::dividends(const Linear& a, const LinearTerm& t, int64_t c) {
  std::vector<Linear> found;
  int64_t kc;
  if (__builtin_mul_overflow(t.coefficient, c, &kc)) return found;
  const auto take = [&](const Expr& e) {
    const Binary* div = as_binary(e, BinaryOp::FloorDiv);
    if (divisor(div) == c) found.push_back(canonical_linear(div->a));
  };
  for (const LinearTerm& o : a.terms) {
    if (o.coefficient != kc) continue;
    take(o.expr);
    const Binary* outer = as_binary(o.expr, BinaryOp::FloorMod);
    if (divisor(outer) == 0) continue;
    for (const LinearTerm& digit : canonical_linear(outer->a).terms) {
      if (digit.coefficient == 1) take(digit.expr);
    }
  }
  return found;
}

// Joins the remainder `t` of x by c, a term of a, with the digits above it.
bool Simplifier::join_remainder(Linear& a, const LinearTerm& t, const Linear& x, int64_t c) {
  const int64_t k = t.coefficient;
  int64_t kc;
  if (__builtin_mul_overflow(k, c, &kc)) return false;
  const Linear quotient = floor_divide(x, c);
  const Expr* q = quotient.as_single();
  if (!q) return false;
  for (const LinearTerm& o : a.terms) {
    if (o.coefficient != kc) continue;
    Linear result = a;
    if (equal(o.expr, *q)) {
      result.add(x, k);
    } else {
      const Binary* outer = as_binary(o.expr, BinaryOp::FloorMod);
      int64_t cd;
      if (divisor(outer) == 0 || __builtin_mul_overflow(c, divisor(outer), &cd)) continue;
      Linear of_outer = canonical_linear(outer->a);
      if (!contains(of_outer, quotient, 1)) continue;
      Linear whole = x;
      of_outer.add(quotient, -1);
      whole.add(of_outer, c);
      whole.normalize();
      if (whole.overflow) continue;
      result.add(floor_modulo(std::move(whole), cd), k);
    }
    result.add(t.expr, -k);
    result.add(o.expr, -kc);
    result.normalize();
    if (result.overflow) continue;
    a = std::move(result);
    return true;
  }
  return false;
}

// x/c*c + x%c --> x;  x%c + (x/c + y)%d*c --> (x + y*c)%(c*d);  x - x/c*c --> x%c, all times any k.
bool Simplifier::recombine_remainder(Linear& a) {
  for (const LinearTerm& t : a.terms) {
    const Binary* mod = as_binary(t.expr, BinaryOp::FloorMod);
    const Binary* div = as_binary(t.expr, BinaryOp::FloorDiv);
    const int64_t c = divisor(mod ? mod : div), k = t.coefficient;
    if (c == 0) continue;
    if (div) {
      const Linear x = canonical_linear(div->a);
      if (k % c != 0 || k == INT64_MIN || !contains(a, x, -(k / c))) continue;
      const int64_t times = -(k / c);
      Linear result = a;
      result.add(t.expr, -k);
      result.add(x, -times);
      result.add(floor_modulo(x, c), times);
      result.normalize();
      if (result.overflow || result.terms.size() >= a.terms.size()) continue;
      a = std::move(result);
      return true;
    }
    const Linear x = canonical_linear(mod->a);
    if (join_remainder(a, t, x, c)) return true;
    // What x was taken modulo a multiple of c went from x%c, but not from x/c.
    for (const Linear& y : dividends(a, t, c)) {
      Linear difference = y;
      difference.add(x, -1);
      difference.normalize();
      if (difference.overflow) continue;
      const Linear rest = floor_modulo(std::move(difference), c);
      if (rest.terms.empty() && rest.constant == 0 && join_remainder(a, t, y, c)) return true;
    }
  }
  return false;
}

}  // namespace heddle
