#include "dag/errors/error_expr.h"

#include <cmath>
#include <limits>

#include "heddle/dsl/tensor.h"
#include "heddle/support/error.h"

namespace heddle::dag {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
// Roundings counted for + - * /, in halves of a unit: each side of a comparison rounds once.
constexpr double kArithmetic = 2;
// Roundings counted for exp and similar functions. Heddle's functions are within 4 ulp, those of a
// GPU nearly so.
constexpr double kFunction = 16;

Expr number(double v) { return make_float(f64, v); }
Expr no() { return make_const(boolean, 0); }

double largest_of(DataType t) {
  if (t.is_float8()) return t == f8e4m3 ? 448.0 : 57344.0;
  return t == f16 ? 65504.0 : t == f64 ? std::numeric_limits<double>::max() : 0x1.fffffep127;
}

// Numbers below this one lose bits or become zero in the type.
double smallest_of(DataType t) {
  if (t.is_float8()) return t == f8e4m3 ? 0x1p-9 : 0x1p-16;
  return t == f16 ? 0x1p-24 : t == f64 ? 0x1p-1022 : 0x1p-126;
}

// Whether the float or integer type holds all values of an integer type.
bool holds(DataType wide, DataType t) {
  if (wide == f64) return t.bits <= 32;
  if (wide == f32) return t.bits <= 16;
  return wide.bits > 8 && t.bits <= 8;
}

Expr larger(const Expr& a, const Expr& b) {
  if (!a.defined()) return b;
  if (!b.defined()) return a;
  return max(a, b);
}

Expr either(const Expr& a, const Expr& b) {
  if (!a.defined()) return b;
  if (!b.defined()) return a;
  return logical_or(a, b);
}

Expr or_zero(const Expr& error) { return error.defined() ? error : number(0); }

Expr as_f64(const Expr& e) { return e.dtype() == f64 ? e : cast(f64, e); }

// `then` where the error of an argument is below `room`, infinity elsewhere.
Expr within(const Expr& error, const Expr& room, const Expr& then) {
  return make_select(error < room, then, number(kInf));
}

// As `within`, for functions that are not defined everywhere. Negative room means that the argument
// is outside of the domain: there the result `y` is NaN and is returned.
Expr within_domain(const Expr& error, const Expr& room, const Expr& y, const Expr& then) {
  return make_select(error < -room, y, within(error, room, then));
}

// An upper bound of |f(x + e) - f(x)|, for y = f(x).
Expr propagate(UnaryOp op, const Expr& x, const Expr& y, const Expr& e) {
  const Expr one = number(1);
  switch (op) {
    case UnaryOp::Neg:
    case UnaryOp::Abs:
    case UnaryOp::Atan: return e;
    case UnaryOp::Sin:
    case UnaryOp::Cos:
    case UnaryOp::Tanh: return min(e, number(2));
    case UnaryOp::Erf: return min(number(1.13) * e, number(2));
    case UnaryOp::Exp: return y * expm1(e);
    case UnaryOp::Exp2: return y * expm1(number(std::log(2.0)) * e);
    case UnaryOp::Expm1: return (y + one) * expm1(e);
    case UnaryOp::Log: return within_domain(e, x, y, -log1p(-(e / x)));
    case UnaryOp::Log2: return within_domain(e, x, y, number(-1 / std::log(2.0)) * log1p(-(e / x)));
    case UnaryOp::Log10:
      return within_domain(e, x, y, number(-1 / std::log(10.0)) * log1p(-(e / x)));
    case UnaryOp::Log1p: return within_domain(e, x + one, y, -log1p(-(e / (x + one))));
    case UnaryOp::Sqrt: return within_domain(e, x, y, e / y);
    case UnaryOp::Rsqrt: return within_domain(e, x, y, y * e / (x - e));
    case UnaryOp::Tan: {
      const Expr slope = one + y * y;
      return within(e * (one + abs(y)), number(0.5), number(2) * e * slope);
    }
    case UnaryOp::Asin:
    case UnaryOp::Acos: {
      const Expr most = abs(x) + e;
      return within(most, one, e / sqrt(one - most * most));
    }
    case UnaryOp::Sinh:
    case UnaryOp::Cosh: return exp(abs(x)) * expm1(e);
    case UnaryOp::Floor:
    case UnaryOp::Ceil:
    case UnaryOp::Round:
    case UnaryOp::Trunc:
    case UnaryOp::RoundTf32: return make_unary(op, x + e) - make_unary(op, x - e);
    case UnaryOp::Not:
    case UnaryOp::BitNot:
    case UnaryOp::IsNan:
    case UnaryOp::IsInf: break;
  }
  return make_select(e > number(0), number(kInf), number(0));
}

bool is_exact(UnaryOp op) {
  switch (op) {
    case UnaryOp::Neg:
    case UnaryOp::Not:
    case UnaryOp::BitNot:
    case UnaryOp::Abs:
    case UnaryOp::Floor:
    case UnaryOp::Ceil:
    case UnaryOp::Round:
    case UnaryOp::Trunc:
    case UnaryOp::IsNan:
    case UnaryOp::IsInf:
    case UnaryOp::RoundTf32: return true;
    default: return false;
  }
}

bool grows_fast(UnaryOp op) {
  return op == UnaryOp::Exp || op == UnaryOp::Exp2 || op == UnaryOp::Expm1 || op == UnaryOp::Sinh ||
         op == UnaryOp::Cosh;
}

bool is_comparison(BinaryOp op) {
  return op == BinaryOp::Eq || op == BinaryOp::Ne || op == BinaryOp::Lt || op == BinaryOp::Le;
}

// The error of x ^ y. The power is computed as exp(y log x), whose rounding error grows with y log
// x.
Expr power_error(DataType t, const Bounded& x, const Bounded& y, const Expr& value) {
  const Expr size = abs(x.value);
  const Expr turns = number(1) + abs(y.value * log(max(size, number(1e-300))));
  Expr error = rounding_error(t, value, kFunction) * turns + number(smallest_of(t));
  if (x.error.defined()) {
    const auto* exponent = y.value.as<FloatImm>();
    const Expr own =
        exponent && exponent->value >= 1
            ? pow(size + x.error, y.value) - pow(size, y.value)
            : within(x.error, size, abs(value) * expm1(abs(y.value) * x.error / (size - x.error)));
    error = error + own;
  }
  if (y.error.defined()) {
    error = error + abs(value) * expm1(abs(log(max(size, number(1e-300)))) * y.error);
  }
  return error;
}

}  // namespace

double unit_roundoff(DataType t) {
  if (t.is_float8()) return t == f8e4m3 ? 0x1p-4 : 0x1p-3;
  return t == f64 ? 0x1p-53 : t == f16 ? 0x1p-11 : t == bf16 ? 0x1p-8 : 0x1p-24;
}

Expr stored_error(DataType t, const Expr& value, const Expr& error) {
  return make_select(abs(value) > number(largest_of(t)), number(kInf),
                     error + number(smallest_of(t)));
}

Expr rounding_error(DataType t, const Expr& value, double roundings) {
  const Expr size = abs(value);
  return make_select(size < number(kInf), number(roundings * unit_roundoff(t)) * size, number(0));
}

Expr add_errors(const Expr& a, const Expr& b) {
  if (!a.defined()) return b;
  if (!b.defined()) return a;
  return a + b;
}

Bounded ErrorExpr::follow(const Expr& e) {
  if (const auto it = known_.find(e.get()); it != known_.end()) return it->second;
  const Bounded out = make(e);
  known_.emplace(e.get(), out);
  kept_.push_back(e);
  return out;
}

Bounded ErrorExpr::make(const Expr& e) {
  switch (e.kind()) {
    case ExprKind::IntImm: return {e, {}};
    case ExprKind::FloatImm: return {number(e.as<FloatImm>()->value), {}};
    case ExprKind::Var: return variable(e);
    case ExprKind::Cast: return cast_of(*e.as<Cast>());
    case ExprKind::Unary: return unary(*e.as<Unary>());
    case ExprKind::Binary: return binary(*e.as<Binary>());
    case ExprKind::Select: return select_of(*e.as<Select>());
    case ExprKind::Load: return read(*e.as<Load>());
    case ExprKind::Reduce:
    case ExprKind::Ramp:
    case ExprKind::Broadcast:
    case ExprKind::Shuffle: break;
  }
  HEDDLE_ICHECK(false, "no expression of a declaration's body");
  return {};
}

Bounded ErrorExpr::variable(const Expr& e) const {
  for (const auto& [var, bounded] : variables_) {
    if (var.get() == e.get()) return bounded;
  }
  return {e, {}};
}

Bounded ErrorExpr::cast_of(const Cast& c) {
  const Bounded x = follow(c.value);
  const DataType from = c.value.dtype(), to = c.dtype;
  if (to.is_bool()) {
    if (from.is_bool()) return x;
    Expr uncertain;
    if (x.error.defined()) uncertain = abs(as_f64(x.value)) <= x.error;
    return {cast(boolean, x.value), uncertain};
  }
  Expr error = x.error;
  if (from.is_bool() && error.defined()) error = make_select(error, number(1), number(0));
  if (!to.is_float()) {
    if (from.is_float() && error.defined()) error = trunc(x.value + error) - trunc(x.value - error);
    return {cast(to, x.value), error};
  }
  const Expr value = as_f64(x.value);
  const bool rounds = from.is_float() ? unit_roundoff(to) > unit_roundoff(from) : !holds(to, from);
  if (rounds) {
    error = add_errors(error, rounding_error(to, value, kArithmetic) + number(smallest_of(to)));
    error = make_select(abs(value) > number(largest_of(to)), number(kInf), error);
  }
  return {value, error};
}

Bounded ErrorExpr::unary(const Unary& u) {
  const Bounded x = follow(u.a);
  if (u.op == UnaryOp::Not) return {Expr(!x.value), x.error};
  const Expr y = make_unary(u.op, x.value);
  if (y.dtype().is_bool()) return {y, {}};
  Expr error;
  if (x.error.defined()) {
    error = propagate(u.op, u.a.dtype().is_float() ? x.value : as_f64(x.value), as_f64(y), x.error);
  }
  if (u.dtype.is_float() && !is_exact(u.op)) {
    error = add_errors(error, rounding_error(u.dtype, y, kFunction) + number(smallest_of(u.dtype)));
    if (grows_fast(u.op)) {
      error = make_select(abs(y) > number(largest_of(u.dtype)), number(kInf), error);
    }
  }
  return {y, error};
}

Bounded ErrorExpr::binary(const Binary& b) {
  const Bounded x = follow(b.a), y = follow(b.b);
  const Expr value = make_binary(b.op, x.value, y.value);
  if (b.a.dtype().is_bool()) return {value, either(x.error, y.error)};
  if (is_comparison(b.op)) {
    if (!x.error.defined() && !y.error.defined()) return {value, {}};
    const Expr apart = abs(as_f64(x.value) - as_f64(y.value));
    return {value, Expr(apart <= add_errors(x.error, y.error))};
  }
  if (b.dtype.is_float()) return arithmetic(b, x, y);
  // An integer has an error where it was converted from a float.
  const Expr any = add_errors(x.error, y.error);
  if (!any.defined()) return {value, {}};
  const Expr p = abs(as_f64(x.value)), q = abs(as_f64(y.value));
  switch (b.op) {
    case BinaryOp::Add:
    case BinaryOp::Sub: return {value, any};
    case BinaryOp::Min:
    case BinaryOp::Max: return {value, larger(x.error, y.error)};
    case BinaryOp::Mul:
      return {value, p * or_zero(y.error) + (q + or_zero(y.error)) * or_zero(x.error)};
    default: return {value, make_select(any > number(0), number(kInf), number(0))};
  }
}

Bounded ErrorExpr::arithmetic(const Binary& b, const Bounded& x, const Bounded& y) {
  const Expr value = make_binary(b.op, x.value, y.value);
  const Expr rounding = rounding_error(b.dtype, value, kArithmetic);
  const Expr both = add_errors(x.error, y.error);
  switch (b.op) {
    case BinaryOp::Min:
    case BinaryOp::Max: return {value, larger(x.error, y.error)};
    case BinaryOp::Add:
    case BinaryOp::Sub: return {value, add_errors(both, rounding)};
    case BinaryOp::Mul: {
      Expr error = rounding;
      if (y.error.defined()) error = error + abs(x.value) * y.error;
      if (x.error.defined()) error = error + (abs(y.value) + or_zero(y.error)) * x.error;
      return {value, error};
    }
    case BinaryOp::Div: {
      const Expr size = abs(y.value);
      Expr error = rounding_error(b.dtype, value, 2 * kArithmetic);
      if (y.error.defined()) {
        error = error +
                within(y.error, size, (or_zero(x.error) + abs(value) * y.error) / (size - y.error));
      } else if (x.error.defined()) {
        error = error + x.error / size;
      }
      return {value, error};
    }
    case BinaryOp::Pow: {
      const Expr error = power_error(b.dtype, x, y, value);
      return {value, make_select(abs(value) > number(largest_of(b.dtype)), number(kInf), error)};
    }
    case BinaryOp::Atan2: {
      if (!both.defined()) return {value, rounding_error(b.dtype, value, kFunction)};
      const Expr radius = sqrt(x.value * x.value + y.value * y.value);
      const Expr turn = min(both / (radius - both), number(6.3));
      const Expr cut = logical_and(y.value < number(0), abs(x.value) <= both);
      return {value, rounding_error(b.dtype, value, kFunction) +
                         make_select(logical_or(cut, both >= radius), number(6.3), turn)};
    }
    default: break;
  }
  // The remainder of a division jumps where the quotient is an integer.
  if (!both.defined()) return {value, rounding};
  return {value, make_select(both > number(0), number(kInf), rounding)};
}

Bounded ErrorExpr::select_of(const Select& s) {
  const Bounded c = follow(s.condition), t = follow(s.on_true), f = follow(s.on_false);
  const Expr value = make_select(c.value, t.value, f.value);
  if (s.dtype.is_bool()) {
    Expr error;
    if (t.error.defined() || f.error.defined()) {
      error = make_select(c.value, t.error.defined() ? t.error : no(),
                          f.error.defined() ? f.error : no());
    }
    if (c.error.defined()) error = either(error, logical_and(c.error, t.value != f.value));
    return {value, error};
  }
  Expr error;
  if (t.error.defined() || f.error.defined()) {
    error = make_select(c.value, or_zero(t.error), or_zero(f.error));
  }
  if (!c.error.defined()) return {value, error};
  // Either arm may be right, so the bound is the difference of the arms plus the error of the other
  // one.
  const Expr apart = abs(as_f64(t.value) - as_f64(f.value));
  const Expr other = larger(t.error, f.error);
  const Expr decided = error.defined() ? error : number(0);
  return {value, make_select(c.error, add_errors(apart, other), decided)};
}

Bounded ErrorExpr::read(const Load& l) {
  std::vector<Expr> indices;
  Expr moved;
  for (const Expr& i : l.indices) {
    const Bounded index = follow(i);
    indices.push_back(index.value);
    moved = add_errors(moved, index.error);
  }
  Bounded out = load_(l, std::move(indices));
  if (!moved.defined()) return out;
  // The index may have an error, so that another element is the right one.
  if (l.dtype.is_bool()) return {out.value, either(out.error, moved > number(0))};
  return {out.value, make_select(moved > number(0), number(kInf), or_zero(out.error))};
}

}  // namespace heddle::dag
