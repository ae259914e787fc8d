// The constructors: type checks, adaption of literals, folding of constants.
#include <algorithm>
#include <cmath>
#include <string>

#include "heddle/ir/expr.h"
#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"
#include "ir/depth.h"
#include "ir/fold.h"

namespace heddle {
namespace {

constexpr const char* kCastHelp = "use cast(...) to convert one of them";

[[noreturn]] void operand_error(const char* what, const char* needs, DataType t) {
  throw_user_error(std::string("'") + what + "' needs " + needs + ", not " + to_string(t), {},
                   "use cast(...) to convert it");
}

[[noreturn]] void mismatch(const std::string& what, DataType a, DataType b) {
  throw_user_error(what + " have different types: " + to_string(a) + " and " + to_string(b), {},
                   kCastHelp);
}

/// The constant inside a Broadcast, or `e` itself.
const Expr& scalar_of(const Expr& e) {
  const Broadcast* b = e.as<Broadcast>();
  return b ? b->value : e;
}

const FloatImm* as_float(const Expr& e) { return scalar_of(e).as<FloatImm>(); }

/// Constant `e` as a constant of element type `t` (lanes kept), or null when it does not fit. A
/// float never becomes an integer and a bool never a number: those need a written cast.
Expr adapt(const Expr& e, DataType t) {
  const DataType target = t.with_lanes(e.dtype().lanes);
  if (e.dtype().is_bool() || t.is_bool()) return {};
  if (const int64_t* v = as_int(e)) {
    if (t.is_integral()) {
      const bool fits = e.dtype() == u64 && *v < 0 ? t == u64 : int_fits(t, *v);
      return fits ? make_int(target, *v) : Expr();
    }
    const double d = e.dtype().is_uint() ? static_cast<double>(static_cast<uint64_t>(*v))
                                         : static_cast<double>(*v);
    return std::isfinite(round_float(t, d)) ? make_float(target, d) : Expr();
  }
  const double d = as_float(e)->value;
  if (!t.is_float() || (std::isfinite(d) && !std::isfinite(round_float(t, d)))) return {};
  return make_float(target, d);
}

/// Gives `a` and `b` one element type, by adapting whichever is a constant.
bool unify_types(Expr& a, Expr& b) {
  const DataType ta = a.dtype().element(), tb = b.dtype().element();
  if (ta == tb) return true;
  const auto try_adapt = [](Expr& e, DataType t) {
    if (!is_const(e)) return false;
    Expr adapted = adapt(e, t);
    if (!adapted.defined()) return false;
    e = std::move(adapted);
    return true;
  };
  // Of two constants the one with the type of a literal (i64, f64) is adapted first.
  const bool b_first = is_const(b) && (tb == i64 || tb == f64) && !(ta == i64);
  return b_first ? try_adapt(b, ta) || try_adapt(a, tb) : try_adapt(a, tb) || try_adapt(b, ta);
}

bool unify_lanes(Expr& a, Expr& b) {
  const int la = a.dtype().lanes, lb = b.dtype().lanes;
  if (la == lb) return true;
  if (la == 1) {
    a = make_broadcast(std::move(a), lb);
  } else if (lb == 1) {
    b = make_broadcast(std::move(b), la);
  } else {
    return false;
  }
  return true;
}

/// All integers of absolute value up to this one are exact in float type `t`.
int64_t exact_integers(DataType t) {
  if (t.bits == 64) return int64_t{1} << 53;
  if (t.bits == 32) return int64_t{1} << 24;
  if (t.is_float8()) return t.code == TypeCode::E4M3 ? 1 << 4 : 1 << 3;
  return t.code == TypeCode::BFloat ? 1 << 8 : 1 << 11;
}

/// The range of an integer expression, from the types of its loads and the extents of axes.
Interval values_of(const Expr& e) {
  Ranges ranges;
  visit(e, [&](const Expr& x) {
    const VarNode* v = x.as<VarNode>();
    if (v && v->extent >= 0) ranges.set(Var::from(x), {0, std::max<int64_t>(v->extent - 1, 0)});
  });
  return range_of(e, ranges);
}

/// Whether `e` is an integer that is not constant and `beside` is a float constant.
bool beside_float_constant(const Expr& e, const Expr& beside) {
  return !is_const(e) && e.dtype().is_integral() && !e.dtype().is_bool() && is_const(beside) &&
         beside.dtype().is_float();
}

/// Converts an integer next to a float constant to the type of the constant, where that is exact.
void adapt_integer(Expr& e, const Expr& beside) {
  if (!beside_float_constant(e, beside)) return;
  if (is_too_deep(e))
    throw_user_error("an integer expression beside a float is nested deeper than " +
                         std::to_string(kDeepestExpression) + " levels",
                     {}, "compute parts of it in tensors of their own");
  const DataType t = beside.dtype().element();
  const int64_t most = exact_integers(t);
  const Interval values = values_of(scalar_of(e));
  if (-most <= values.min && values.max <= most) e = cast(t, std::move(e));
}

[[noreturn]] void operand_mismatch(BinaryOp op, const Expr& a, const Expr& b) {
  const std::string what = std::string("the operands of '") + to_string(op) + "'";
  if (!beside_float_constant(a, b) && !beside_float_constant(b, a)) {
    mismatch(what, a.dtype(), b.dtype());
  }
  const DataType t = (a.dtype().is_float() ? a : b).dtype().element();
  throw_user_error(
      what + " have different types: " + to_string(a.dtype()) + " and " + to_string(b.dtype()), {},
      "the integers may be ones that " + to_string(t) + " does not have: use cast(" + to_string(t) +
          ", ...) where they are to be rounded");
}

bool is_compare(BinaryOp op) {
  return op == BinaryOp::Eq || op == BinaryOp::Ne || op == BinaryOp::Lt || op == BinaryOp::Le;
}

void check_operands(BinaryOp op, DataType t) {
  const char* name = to_string(op);
  switch (op) {
    case BinaryOp::Add:
    case BinaryOp::Sub:
    case BinaryOp::Mul:
    case BinaryOp::Div:
    case BinaryOp::Mod:
    case BinaryOp::Min:
    case BinaryOp::Max:
    case BinaryOp::Lt:
    case BinaryOp::Le:
      if (t.is_bool()) operand_error(name, "numbers", t);
      return;
    case BinaryOp::FloorDiv:
    case BinaryOp::FloorMod:
    case BinaryOp::Shl:
    case BinaryOp::Shr:
      if (!t.is_integral() || t.is_bool()) operand_error(name, "integers", t);
      return;
    case BinaryOp::BitAnd:
    case BinaryOp::BitOr:
    case BinaryOp::BitXor:
      if (!t.is_integral()) operand_error(name, "integers", t);
      return;
    case BinaryOp::Pow:
    case BinaryOp::Atan2:
      if (!t.is_float()) operand_error(name, "floats", t);
      return;
    case BinaryOp::And:
    case BinaryOp::Or:
      if (!t.is_bool()) operand_error(name, "bools", t);
      return;
    case BinaryOp::Eq:
    case BinaryOp::Ne: return;
  }
}

/// The constant result where both operands are constant, else null.
Expr fold_constants(BinaryOp op, DataType result, const Expr& a, const Expr& b) {
  const DataType t = a.dtype().element();
  if (t.is_integral()) {
    const int64_t *x = as_int(a), *y = as_int(b);
    if (!x || !y) return {};
    const std::optional<int64_t> v = fold_int(op, t, *x, *y);
    return v ? make_int(result, *v) : Expr();
  }
  const FloatImm *x = as_float(a), *y = as_float(b);
  if (!x || !y) return {};
  if (is_compare(op)) return make_int(result, *fold_float_compare(op, x->value, y->value));
  const std::optional<double> v = fold_float(op, t, x->value, y->value);
  return v ? make_float(result, *v) : Expr();
}

Expr fold_int_identity(BinaryOp op, const Expr& a, const Expr& b) {
  const int64_t *x = as_int(a), *y = as_int(b);
  switch (op) {
    case BinaryOp::Add:
      if (y && *y == 0) return a;
      if (x && *x == 0) return b;
      return {};
    case BinaryOp::Sub:
      if (y && *y == 0) return a;
      if (a.same_as(b)) return make_int(a.dtype(), 0);
      return {};
    case BinaryOp::Mul:
      if (y && (*y == 0 || *y == 1)) return *y ? a : b;
      if (x && (*x == 0 || *x == 1)) return *x ? b : a;
      return {};
    case BinaryOp::Div:
    case BinaryOp::FloorDiv: return y && *y == 1 ? a : Expr();
    case BinaryOp::Mod:
    case BinaryOp::FloorMod: return y && *y == 1 ? make_int(a.dtype(), 0) : Expr();
    case BinaryOp::And:
      if (y) return *y ? a : b;
      if (x) return *x ? b : a;
      return a.same_as(b) ? a : Expr();
    case BinaryOp::Or:
      if (y) return *y ? b : a;
      if (x) return *x ? a : b;
      return a.same_as(b) ? a : Expr();
    case BinaryOp::Eq:
    case BinaryOp::Le:
      if (a.same_as(b)) return make_int(boolean.with_lanes(a.dtype().lanes), 1);
      return {};
    case BinaryOp::Ne:
    case BinaryOp::Lt:
      if (a.same_as(b)) return make_int(boolean.with_lanes(a.dtype().lanes), 0);
      return {};
    default: return {};
  }
}

Expr fold_float_identity(BinaryOp op, const Expr& a, const Expr& b) {
  const FloatImm *x = as_float(a), *y = as_float(b);
  // x + 0 is not folded (x may be -0), nor x * 0 (NaN, infinity and signs).
  if (op == BinaryOp::Sub && y && y->value == 0 && !std::signbit(y->value)) return a;
  if ((op == BinaryOp::Mul || op == BinaryOp::Div) && y && y->value == 1) return a;
  if (op == BinaryOp::Mul && x && x->value == 1) return b;
  return {};
}

Expr fold_identity(BinaryOp op, const Expr& a, const Expr& b) {
  if ((op == BinaryOp::Min || op == BinaryOp::Max) && a.same_as(b)) return a;
  return a.dtype().is_float() ? fold_float_identity(op, a, b) : fold_int_identity(op, a, b);
}

}  // namespace

Expr make_int(DataType t, int64_t value) {
  if (t.is_vector()) return make_broadcast(make_int(t.element(), value), t.lanes);
  if (t.is_float()) return make_float(t, static_cast<double>(value));
  return Expr(new IntImm(t, wrap_int(t, value)));
}

Expr make_float(DataType t, double value) {
  if (t.is_vector()) return make_broadcast(make_float(t.element(), value), t.lanes);
  if (!t.is_float()) operand_error("make_float", "a float type", t);
  return Expr(new FloatImm(t, round_float(t, value)));
}

Expr make_const(DataType t, double value) {
  if (t.is_float()) return make_float(t, value);
  const std::optional<int64_t> v = float_to_int(t.element(), value);
  if (!v || (!t.is_bool() && value != std::trunc(value))) {
    throw_user_error("the constant " + std::to_string(value) + " is no value of type " +
                     to_string(t));
  }
  return make_int(t, *v);
}

Expr make_unary(UnaryOp op, Expr a) {
  HEDDLE_ICHECK(a.defined(), "operand of an operator is null");
  const DataType t = a.dtype();
  const char* name = to_string(op);
  DataType result = t;
  if (op == UnaryOp::Neg || op == UnaryOp::Abs) {
    if (t.is_bool()) operand_error(name, "a number", t);
    if (op == UnaryOp::Abs && t.is_uint()) return a;
  } else if (op == UnaryOp::Not) {
    if (!t.is_bool()) operand_error(name, "a bool", t);
  } else if (op == UnaryOp::BitNot) {
    if (!t.is_integral() || t.is_bool()) operand_error(name, "an integer", t);
  } else if (!t.is_float()) {
    operand_error(name, "a float", t);
  } else if (op == UnaryOp::IsNan || op == UnaryOp::IsInf) {
    result = boolean.with_lanes(t.lanes);
  } else if (op == UnaryOp::RoundTf32 && t.bits <= 16) {
    return a;  // tf32 holds all numbers of these types
  }
  if (const Broadcast* b = a.as<Broadcast>())
    return make_broadcast(make_unary(op, b->value), t.lanes);
  if (const IntImm* imm = a.as<IntImm>()) {
    if (const auto v = fold_int(op, t, imm->value)) return make_int(t, *v);
  }
  if (const FloatImm* imm = a.as<FloatImm>()) {
    if (op == UnaryOp::IsNan) return Expr(std::isnan(imm->value));
    if (op == UnaryOp::IsInf) return Expr(std::isinf(imm->value));
    if (const auto v = fold_float(op, t, imm->value)) return make_float(t, *v);
  }
  if (const Unary* inner = a.as<Unary>(); inner && inner->op == op) {
    if (op == UnaryOp::Neg || op == UnaryOp::Not || op == UnaryOp::BitNot) return inner->a;
    if (op == UnaryOp::RoundTf32) return a;
  }
  return Expr(new Unary(op, result, std::move(a)));
}

Expr make_binary(BinaryOp op, Expr a, Expr b) {
  HEDDLE_ICHECK(a.defined() && b.defined(), "operand of an operator is null");
  adapt_integer(a, b);
  adapt_integer(b, a);
  if (!unify_types(a, b) || !unify_lanes(a, b)) {
    operand_mismatch(op, a, b);
  }
  check_operands(op, a.dtype());
  const DataType result = is_compare(op) ? boolean.with_lanes(a.dtype().lanes) : a.dtype();
  if (is_const(a) && is_const(b)) {
    if (Expr folded = fold_constants(op, result, a, b)) return folded;
  }
  if (Expr folded = fold_identity(op, a, b)) return folded;
  const Broadcast *x = a.as<Broadcast>(), *y = b.as<Broadcast>();
  if (x && y) return make_broadcast(make_binary(op, x->value, y->value), a.dtype().lanes);
  return Expr(new Binary(op, result, std::move(a), std::move(b)));
}

Expr make_select(Expr condition, Expr on_true, Expr on_false) {
  HEDDLE_ICHECK(condition.defined() && on_true.defined() && on_false.defined(),
                "part of a select is null");
  if (!condition.dtype().is_bool()) {
    throw_user_error(
        "the condition of select has type " + to_string(condition.dtype()) + ", not bool", {},
        "compare it, as in x != 0, or use cast(boolean, x)");
  }
  if (!unify_types(on_true, on_false) || !unify_lanes(on_true, on_false)) {
    mismatch("the arms of select", on_true.dtype(), on_false.dtype());
  }
  // A scalar condition may choose between vectors; a vector condition needs vector arms.
  if (const Broadcast* b = condition.as<Broadcast>(); b && on_true.dtype().is_vector()) {
    condition = Expr(b->value);
  }
  const int lanes = condition.dtype().lanes;
  if (lanes > 1 && on_true.dtype().is_scalar()) {
    on_true = make_broadcast(std::move(on_true), lanes);
    on_false = make_broadcast(std::move(on_false), lanes);
  }
  if (lanes > 1 && on_true.dtype().lanes != lanes) {
    mismatch("the condition and the arms of select", condition.dtype(), on_true.dtype());
  }
  if (const int64_t* c = as_int(condition)) return *c ? on_true : on_false;
  if (equal(on_true, on_false)) return on_true;
  return Expr(new Select(std::move(condition), std::move(on_true), std::move(on_false)));
}

Expr make_load(const Buffer& buffer, std::vector<Expr> indices) {
  HEDDLE_ICHECK(buffer, "load from a null buffer");
  const size_t rank = buffer->shape.size();
  if (indices.size() != rank && indices.size() != 1) {
    throw_user_error("'" + buffer->name + "' has " + std::to_string(rank) +
                     " dimensions but is read at " + std::to_string(indices.size()) + " indices");
  }
  int lanes = 1;
  for (Expr& index : indices) {
    if (!index.dtype().is_integral() || index.dtype().is_bool()) {
      throw_user_error("an index of '" + buffer->name + "' has type " + to_string(index.dtype()) +
                           ", not an integer type",
                       {}, "use cast(i64, ...)");
    }
    index = cast(i64, std::move(index));
    const int n = index.dtype().lanes;
    HEDDLE_ICHECK(n == 1 || lanes == 1 || n == lanes,
                  "indices of '" + buffer->name + "' have different numbers of lanes");
    if (n > 1) lanes = n;
  }
  const DataType t = buffer->dtype.with_lanes(lanes);
  return Expr(new Load(buffer, std::move(indices), t));
}

Expr make_reduce(Ref<const Combiner> combiner, std::vector<Expr> sources, std::vector<Axis> axes,
                 int index) {
  HEDDLE_ICHECK(combiner && sources.size() == combiner->size(),
                "a reduction has as many sources as its combiner has components");
  for (size_t i = 0; i < sources.size(); ++i) {
    const DataType want = combiner->rhs[i]->dtype;
    if (sources[i].dtype() == want) continue;
    Expr adapted = is_const(sources[i]) ? adapt(sources[i], want) : Expr();
    if (!adapted.defined()) {
      throw_user_error("component " + std::to_string(i) + " of the reduction '" + combiner->name +
                           "' has type " + to_string(sources[i].dtype()) + ", not " +
                           to_string(want),
                       {}, "use cast(...) to convert it");
    }
    sources[i] = std::move(adapted);
  }
  return Expr(new Reduce(std::move(combiner), std::move(sources), std::move(axes), index));
}

Expr make_ramp(Expr base, Expr stride, int lanes) {
  HEDDLE_ICHECK(base.defined() && stride.defined() && base.dtype().is_scalar() &&
                    stride.dtype().is_scalar() && base.dtype().is_integral() && lanes >= 1,
                "a ramp has a scalar integer base and stride");
  const bool same_type = unify_types(base, stride);
  HEDDLE_ICHECK(same_type, "base and stride of a ramp have different types");
  if (lanes == 1) return base;
  if (is_const(stride, 0)) return make_broadcast(std::move(base), lanes);
  return Expr(new Ramp(std::move(base), std::move(stride), lanes));
}

Expr make_broadcast(Expr value, int lanes) {
  HEDDLE_ICHECK(value.defined() && value.dtype().is_scalar() && lanes >= 1,
                "a broadcast is of a scalar");
  if (lanes == 1) return value;
  return Expr(new Broadcast(std::move(value), lanes));
}

Expr make_shuffle(Expr value, int lane_xor) {
  HEDDLE_ICHECK(value.defined() && value.dtype().is_scalar() && lane_xor > 0 && lane_xor < 32,
                "a shuffle moves a scalar between the lanes of a warp");
  return Expr(new Shuffle(std::move(value), lane_xor));
}

Expr cast(DataType t, Expr value) {
  HEDDLE_ICHECK(value.defined(), "cast of a null expression");
  const DataType from = value.dtype();
  t = t.with_lanes(from.lanes);
  if (from == t) return value;
  if (const Broadcast* b = value.as<Broadcast>()) {
    return make_broadcast(cast(t.element(), b->value), t.lanes);
  }
  if (const IntImm* imm = value.as<IntImm>()) {
    if (t.is_float() && from.is_uint()) {
      return make_float(t, static_cast<double>(static_cast<uint64_t>(imm->value)));
    }
    return make_int(t, imm->value);
  }
  if (const FloatImm* imm = value.as<FloatImm>()) {
    if (t.is_float()) return make_float(t, imm->value);
    if (const auto v = float_to_int(t, imm->value)) return make_int(t, *v);
  }
  if (t.is_bool()) {
    Expr zero = from.is_float() ? make_float(from, 0) : make_int(from, 0);
    return make_binary(BinaryOp::Ne, std::move(value), std::move(zero));
  }
  return Expr(new Cast(t, std::move(value)));
}

}  // namespace heddle
