// Floor division and remainder by positive constants, through the linear form of the numerator.
#include <algorithm>
#include <numeric>

#include "ir/fold.h"
#include "ir/simplify/simplifier.h"
#include "ir/simplify/simplify_rules.h"

namespace heddle {
namespace {

const Binary* as_binary(const Expr& e, BinaryOp op) {
  const Binary* b = e.as<Binary>();
  return b && b->op == op ? b : nullptr;
}

/// x of `x op c` with a constant c > 0.
const Binary* by_constant(const Expr& e, BinaryOp op, int64_t& c) {
  const Binary* b = as_binary(e, op);
  const int64_t* k = b ? as_int(b->b) : nullptr;
  if (!k || *k <= 0) return nullptr;
  c = *k;
  return b;
}

Expr over(BinaryOp op, const Linear& n, int64_t c) { return make_binary(op, to_expr(n), c); }

bool in_one_period(Interval r, int64_t c, int64_t& period) {
  if (!r.bounded()) return false;
  period = floor_div(r.min, c);
  return period == floor_div(r.max, c);
}

/// Whether no multiple of c can be split off.
bool is_remainder(const Linear& r, int64_t c) {
  return r.constant >= 0 && r.constant < c &&
         std::all_of(
             r.terms.begin(), r.terms.end(),
             [c](const LinearTerm& t) { return t.coefficient < c && t.coefficient > -c; });
}

Linear negated(Linear a) {
  a.scale(-1);
  return a;
}

}  // namespace

bool Simplifier::split_by_factor(const Linear& n, int64_t c, Linear& m, Linear& s, int64_t& g) {
  // The candidates for g, largest first.
  for (int64_t below = INT64_MAX;; below = g) {
    g = 1;
    for (const LinearTerm& t : n.terms) {
      if (t.coefficient == INT64_MIN) return false;
      const int64_t f = std::gcd(t.coefficient, c);
      if (f < below) g = std::max(g, f);
    }
    if (g == 1) return false;
    m = Linear(floor_div(n.constant, g));
    s = Linear(floor_mod(n.constant, g));
    for (const LinearTerm& t : n.terms) {
      if (t.coefficient % g == 0) {
        m.add(t.expr, t.coefficient / g);
      } else {
        s.add(t.expr, t.coefficient);
      }
    }
    int64_t period;
    if (in_one_period(range(s), g, period)) {
      m.add_constant(period);
      s.add_constant(-g, period);
      return !m.overflow && !s.overflow;
    }
  }
}

Linear Simplifier::floor_divide(Linear n, int64_t c) {
  if (n.overflow || c == 1) return n;
  // (q*c + r) / c --> q + r/c
  Linear q(floor_div(n.constant, c)), r(floor_mod(n.constant, c));
  for (const LinearTerm& t : n.terms) {
    q.add(t.expr, t.coefficient / c);
    r.add(t.expr, t.coefficient % c);
  }
  finish(r);
  q.add(is_remainder(r, c) ? divide_remainder(r, c) : floor_divide(std::move(r), c));
  q.normalize();
  return q;
}

/// floor_divide for a form for which is_remainder holds.
Linear Simplifier::divide_remainder(const Linear& r, int64_t c) {
  // (x/a + rest) / c --> (x + rest*a) / (a*c)
  for (const LinearTerm& t : r.terms) {
    int64_t a, ac;
    const Binary* inner = t.coefficient == 1 ? by_constant(t.expr, BinaryOp::FloorDiv, a) : nullptr;
    if (!inner || __builtin_mul_overflow(a, c, &ac)) continue;
    Linear flat = r;
    flat.add(t.expr, -1);
    flat.scale(a);
    flat.add(canonical_linear(inner->a));
    flat.normalize();
    if (!flat.overflow) return floor_divide(std::move(flat), ac);
  }
  // ((x/a) % b + rest) / c --> (x % (a*b) + rest*a) / (a*c)
  for (const LinearTerm& t : r.terms) {
    int64_t a, b, ab, ac;
    const Binary* digit = t.coefficient == 1 ? by_constant(t.expr, BinaryOp::FloorMod, b) : nullptr;
    const Binary* inner = digit ? by_constant(digit->a, BinaryOp::FloorDiv, a) : nullptr;
    if (!inner || r.as_single() || __builtin_mul_overflow(a, b, &ab) ||
        __builtin_mul_overflow(a, c, &ac))
      continue;
    Linear flat = r;
    flat.add(t.expr, -1);
    flat.scale(a);
    flat.add(floor_modulo(canonical_linear(inner->a), ab));
    flat.normalize();
    if (!flat.overflow) return floor_divide(std::move(flat), ac);
  }
  // (x % (c*d)) / c --> (x/c) % d
  if (const Expr* single = r.as_single()) {
    int64_t a;
    if (const Binary* mod = by_constant(*single, BinaryOp::FloorMod, a); mod && a % c == 0) {
      return floor_modulo(floor_divide(canonical_linear(mod->a), c), a / c);
    }
  }
  int64_t period, g;
  if (in_one_period(range(r), c, period)) return Linear(period);
  Linear m, s;
  if (split_by_factor(r, c, m, s, g)) return floor_divide(std::move(m), c / g);
  if (Linear arms; divide_arms(r, c, arms)) return arms;
  return Linear(over(BinaryOp::FloorDiv, r, c), 1);
}

// min(p, q) / c --> min(p/c, q/c), where that leaves no division.
bool Simplifier::divide_arms(const Linear& n, int64_t c, Linear& out) {
  for (const LinearTerm& t : n.terms) {
    const Binary* b = t.expr.as<Binary>();
    if (!b || (b->op != BinaryOp::Min && b->op != BinaryOp::Max) || t.coefficient != 1) continue;
    Linear divided[2];
    const Expr* arms[2] = {&b->a, &b->b};
    for (int i = 0; i < 2; ++i) {
      Linear with_arm = n;
      with_arm.add(t.expr, -1);
      with_arm.add(canonical_linear(*arms[i]));
      with_arm.normalize();
      divided[i] = floor_divide(std::move(with_arm), c);
      if (divided[i].overflow) return false;
      for (const LinearTerm& left : divided[i].terms) {
        if (as_binary(left.expr, BinaryOp::FloorDiv)) return false;
      }
    }
    out = minmax(b->op, divided[0], divided[1]);
    return !out.overflow;
  }
  return false;
}

// (k*x + j*(x % a)) % c --> ((k + j)*(x % a)) % c where c divides k*a: the digit that both are parts of.
static void join_digits(Linear& n, int64_t c) {
  for (size_t i = 0; i < n.terms.size(); ++i) {
    int64_t a, ka, both;
    const LinearTerm t = n.terms[i];
    const Binary* digit = by_constant(t.expr, BinaryOp::FloorMod, a);
    const int64_t k = digit ? n.coefficient(digit->a) : 0;
    if (k == 0 || k == INT64_MIN || __builtin_add_overflow(t.coefficient, k, &both) ||
        __builtin_mul_overflow(k, a, &ka) || ka % c != 0)
      continue;
    const Expr x = digit->a;
    n.add(x, -k);
    n.add(t.expr, k);
    n.normalize();
    i = static_cast<size_t>(-1);  // the terms are others now
  }
}

Linear Simplifier::floor_modulo(Linear n, int64_t c) {
  if (n.overflow) return n;
  if (c == 1) return Linear(0);
  join_digits(n, c);
  // k*(x % a) equals k*x up to multiples of k*a.
  for (size_t i = 0; i < n.terms.size(); ++i) {
    int64_t a, ka;
    const LinearTerm t = n.terms[i];
    const Binary* inner = by_constant(t.expr, BinaryOp::FloorMod, a);
    if (!inner || __builtin_mul_overflow(t.coefficient, a, &ka) || ka % c != 0) continue;
    Linear flat = n;
    flat.add(t.expr, -t.coefficient);
    flat.add(canonical_linear(inner->a), t.coefficient);
    finish(flat);  // x/c*c + x%c, before the coefficients of both are reduced on their own
    if (!flat.overflow) return floor_modulo(std::move(flat), c);
  }
  Linear r(floor_mod(n.constant, c));
  for (const LinearTerm& t : n.terms) r.add(t.expr, t.coefficient % c);
  finish(r);
  if (!is_remainder(r, c)) return floor_modulo(std::move(r), c);
  int64_t period, g;
  if (in_one_period(range(r), c, period)) {
    r.add_constant(-c, period);
    return r;
  }
  Linear m, s;
  if (split_by_factor(r, c, m, s, g)) {
    Linear out = std::move(s);
    out.add(floor_modulo(std::move(m), c / g), g);
    out.normalize();
    return out;
  }
  return Linear(over(BinaryOp::FloorMod, r, c), 1);
}

Linear Simplifier::divmod(BinaryOp op, const Expr& ea, const Expr& eb) {
  // (x / a) / c --> x / (a*c), before x / a becomes a sum
  int64_t first, both;
  const Binary* inner = op == BinaryOp::FloorDiv ? by_constant(ea, op, first) : nullptr;
  const int64_t* second = inner ? as_int(eb) : nullptr;
  if (second && *second > 0 && !__builtin_mul_overflow(first, *second, &both))
    return divmod(op, inner->a, Expr(both));
  Linear a = linear(ea), b = linear(eb);
  if (a.overflow || b.overflow) {
    a.overflow = true;
    return a;
  }
  const bool quotient = op == BinaryOp::FloorDiv || op == BinaryOp::Div;
  const bool floor = op == BinaryOp::FloorDiv || op == BinaryOp::FloorMod;
  if (b.is_constant() && b.constant != 0 && b.constant != INT64_MIN) {
    int64_t c = b.constant;
    bool negate_result = false;
    // The negative of the lowest integer is itself, so an expression that may have this value is
    // not negated.
    const bool may_be_lowest = range(a).min == Interval::kNegInf;
    if (c < 0 && may_be_lowest) return Linear(over(op, a, c), 1);
    if (c < 0) {
      // a/-c is -a/c when flooring, -(a/c) when truncating; a%-c is -(-a%c), or a%c.
      c = -c;
      if (floor) a.scale(-1);
      negate_result = floor ? !quotient : quotient;
    }
    const auto divide = [&](Linear n) {
      return quotient ? floor_divide(std::move(n), c) : floor_modulo(std::move(n), c);
    };
    const Interval r = floor ? Interval{} : range(a);
    Linear out;
    if (floor || r.min >= 0) {
      out = divide(std::move(a));
    } else if ((r.max <= 0 && !may_be_lowest) ||
               (gcd_of_coefficients(a) % c == 0 && a.constant % c == 0)) {
      out = negated(divide(negated(std::move(a))));
    } else {
      out = Linear(over(op, a, c), 1);
    }
    return negate_result ? negated(std::move(out)) : out;
  }
  if (a.is_constant() && a.constant == 0) return a;  // for any divisor except zero
  const Interval ra = range(a), rb = range(b);
  if (rb.min > 0 && ra.min >= 0) {
    if (ra.max < rb.min) return quotient ? Linear(0) : a;
    op = quotient ? BinaryOp::FloorDiv : BinaryOp::FloorMod;
  }
  const Expr whole = make_binary(op, to_expr(a), to_expr(b));
  if (const std::optional<Expr> better = apply_rules(whole, ranges_)) return linear(*better);
  return canonical_linear(whole);
}

}  // namespace heddle
