// Functions whose results are rounded to 16 bits, in a few instructions (picture in passes.h).
//
// gelu(x) = x (1 + erf(x / sqrt(2))) / 2 = max(x, 0) - u G(u), with u = |x| and G(u) = P(N(0, 1) >
// u). log2 G is nearly a parabola, so that G is 2 to the power of a short polynomial, which is far
// more precise than erf where its value is near -1. The error, relative to gelu, is below 2^-17.
// Beyond kEnd, u G(u) is less than half of the least f16, and is left as it is there.
//
// Of 1 + tanh(z) = 2 / (1 + exp(-2 z)), 1 + exp(z) and exp(z) the error is that of the power of two:
// |z| * 2^-23, which matters below f16 and bf16 only where z is beyond their range. Sums beside a
// power, which are rounded to 16 bits with it, are not rounded to 16 bits before.
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "lower/passes.h"

namespace heddle::lowering {
namespace {

constexpr double kLog2E = 1.4426950408889634, kSqrt2 = 1.4142135623730951;
// log2 G(u) for u from 0 to kEnd, where u G(u) is far below the least f16, of least error relative to
// half a unit of f16: 0.016 of it, and 2^-17 of G.
constexpr double kEnd = 6.5;
constexpr double kTail[] = {-1,           -1.15121174,    -0.458553553,  -0.053874068,
                            0.0084664021, -0.00092005183, 6.0281338e-05, -1.7699034e-06};

bool is_short(DataType t) { return t == f16 || t == bf16; }

Expr number(double v) { return make_float(f32, v); }
Expr in_f32(const Expr& e) { return cast(f32, e); }

/// `e` without the roundings between f32 and 16 bits.
const Expr& below_roundings(const Expr& e) {
  const Cast* c = e.as<Cast>();
  const bool rounds = c && (is_short(c->dtype) || c->dtype == f32) &&
                      (is_short(c->value.dtype()) || c->value.dtype() == f32);
  return rounds ? below_roundings(c->value) : e;
}

const Binary* binary(const Expr& e, BinaryOp op) {
  const Binary* b = e.as<Binary>();
  return b && b->op == op ? b : nullptr;
}

/// f(z) for 1 + f(z); null where `e` is no such sum.
const Unary* beside_one(const Expr& e) {
  const Binary* sum = binary(below_roundings(e), BinaryOp::Add);
  if (!sum) return nullptr;
  const bool left = is_const(sum->a, 1);
  return left || is_const(sum->b, 1) ? below_roundings(left ? sum->b : sum->a).as<Unary>()
                                     : nullptr;
}

/// `z` times log2(e), where a constant factor of `z`, or of what a value is subtracted from, takes it.
Expr in_powers_of_two(const Expr& z) {
  if (const Binary* mul = binary(z, BinaryOp::Mul)) {
    const FloatImm* c = mul->b.as<FloatImm>();
    if (c && mul->dtype == f32) return mul->a * number(c->value * kLog2E);
  }
  const Binary* shifted = binary(z, BinaryOp::Sub);
  const Binary* mul = shifted ? binary(shifted->a, BinaryOp::Mul) : nullptr;
  if (mul && shifted->dtype == f32 && mul->b.kind() == ExprKind::FloatImm)
    return in_powers_of_two(shifted->a) - shifted->b * number(kLog2E);
  return z * number(kLog2E);
}

const Unary* exponential(const Expr& e) {
  const Unary* of = below_roundings(e).as<Unary>();
  return of && of->op == UnaryOp::Exp ? of : nullptr;
}

/// A product of f32 or 16-bit floats as its factors.
struct Factors {
  double scale = 1;
  std::vector<Expr> over = {}, under = {};

  void add(const Expr& of, bool inverse) {
    const Expr& e = below_roundings(of);
    if (const FloatImm* c = e.as<FloatImm>()) {
      scale = inverse ? scale / c->value : scale * c->value;
    } else if (const Binary* mul = binary(e, BinaryOp::Mul)) {
      add(mul->a, inverse);
      add(mul->b, inverse);
    } else if (const Binary* div = binary(e, BinaryOp::Div)) {
      add(div->a, inverse);
      add(div->b, !inverse);
    } else {
      (inverse ? under : over).push_back(e);
    }
  }
};

/// c, where `e` is c times `x`; 0 where it is not.
double multiple_of(const Expr& e, const Expr& x) {
  Factors f;
  f.add(e, false);
  return f.under.empty() && f.over.size() == 1 && equal(f.over[0], x) ? f.scale : 0;
}

/// gelu(x) where erf has the argument c x, for c near 1 / sqrt(2).
Expr gelu(const Expr& x, double c) {
  const Expr u = min(make_unary(UnaryOp::Abs, x), number(kEnd));
  const double stretched = c * kSqrt2;
  const Expr at = std::fabs(stretched - 1) < 1e-6 ? u : u * number(stretched);
  constexpr size_t kTerms = std::size(kTail);
  Expr power = number(kTail[kTerms - 1]);
  for (size_t i = kTerms - 1; i-- > 0;) power = power * at + number(kTail[i]);
  return max(x, number(0)) - u * make_unary(UnaryOp::Exp2, power);
}

/// 1 + exp(z).
Expr one_and_exp(const Expr& z, double times) {
  return number(1) + make_unary(UnaryOp::Exp2, z * number(times * kLog2E));
}

// The factors x and 1 + erf(c x) of a gelu.
struct Gelu {
  size_t x = 0, erf = 0;
  double c = 0;
};

std::optional<Gelu> gelu_among(const std::vector<Expr>& factors) {
  constexpr double kNear = 0.01;
  for (size_t i = 0; i < factors.size(); ++i) {
    const Unary* erf = beside_one(factors[i]);
    for (size_t j = 0; erf && erf->op == UnaryOp::Erf && j < factors.size(); ++j) {
      const double c = j == i ? 0 : multiple_of(erf->a, factors[j]);
      if (std::fabs(c * kSqrt2 - 1) < kNear) return Gelu{j, i, c};
    }
  }
  return {};
}

/// A sum of f32 without the roundings of its terms to 16 bits.
Expr unrounded(const Expr& e) {
  const Binary* sum = e.as<Binary>();
  if (!sum || sum->dtype != f32 || (sum->op != BinaryOp::Add && sum->op != BinaryOp::Sub)) return e;
  const auto term = [](const Expr& x) {
    const Expr& of = below_roundings(x);
    return of.dtype() == f32 ? unrounded(of) : x;
  };
  return make_binary(sum->op, term(sum->a), term(sum->b));
}

bool has_exponentials(const std::vector<Expr>& factors) {
  return std::any_of(factors.begin(), factors.end(), [](const Expr& x) {
    const Unary* of = beside_one(x);
    return exponential(x) || (of && (of->op == UnaryOp::Tanh || of->op == UnaryOp::Exp));
  });
}

class Shortener {
 public:
  Expr run(const Expr& e) {
    return memo_(e, [&](const Expr& x) {
      const std::optional<Expr> shorter = shortened(x);
      return shorter ? *shorter : map_children(x, [&](const Expr& c) { return run(c); });
    });
  }

 private:
  /// A product of 16-bit floats, or one that is rounded to them, by shorter functions.
  std::optional<Expr> shortened(const Expr& e) {
    if (!is_short(e.dtype())) return {};
    const Cast* c = e.as<Cast>();
    const Expr& product = c && c->value.dtype() == f32 ? c->value : e;
    if (!binary(product, BinaryOp::Mul) && !binary(product, BinaryOp::Div) && !exponential(product))
      return {};
    Factors f;
    f.add(product, false);
    const std::optional<Gelu> g = gelu_among(f.over);
    if (!g && !has_exponentials(f.over) && !has_exponentials(f.under)) return {};
    if (g) {
      f.over[g->x] = gelu(in_f32(run(f.over[g->x])), g->c);
      f.over.erase(f.over.begin() + static_cast<std::ptrdiff_t>(g->erf));
      f.scale *= 2;
    }
    return cast(e.dtype(), product_of(with_short_exponentials(f)));
  }

  /// Replaces 1 + exp(z) and 1 + tanh(z) among the factors.
  Factors with_short_exponentials(const Factors& f) {
    Factors out{.scale = f.scale};
    const auto take = [&](const Expr& x, bool inverse) {
      const Unary* of = beside_one(x);
      if (const Unary* power = exponential(x)) {
        const Expr z = in_powers_of_two(in_f32(run(power->a)));
        (inverse ? out.under : out.over).push_back(make_unary(UnaryOp::Exp2, z));
      } else if (of && of->op == UnaryOp::Tanh) {
        (inverse ? out.over : out.under).push_back(one_and_exp(in_f32(run(of->a)), -2));
        out.scale *= inverse ? 0.5 : 2;
      } else if (of && of->op == UnaryOp::Exp) {
        (inverse ? out.under : out.over).push_back(one_and_exp(in_f32(run(of->a)), 1));
      } else {
        (inverse ? out.under : out.over).push_back(run(unrounded(x)));
      }
    };
    for (const Expr& x : f.over) take(x, false);
    for (const Expr& x : f.under) take(x, true);
    return out;
  }

  static Expr product_of(const Factors& f) {
    Expr over, under;
    if (f.scale != 1 || f.over.empty()) over = number(f.scale);
    for (const Expr& x : f.over) over = over.defined() ? over * in_f32(x) : in_f32(x);
    for (const Expr& x : f.under) under = under.defined() ? under * in_f32(x) : in_f32(x);
    return under.defined() ? over / under : over;
  }

  RewriteMemo memo_;
};

Stmt with_short(const Stmt& s) {
  return map_children(
      s, [](const Stmt& c) { return with_short(c); },
      [](const Expr& e) { return Shortener().run(e); });
}

}  // namespace

Stmt short_functions(const Stmt& s) { return with_short(s); }

}  // namespace heddle::lowering
