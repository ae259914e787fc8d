#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "heddle/dsl/tensor.h"
#include "heddle/ir/print.h"
#include "ir/fold.h"

namespace heddle {
namespace {

void check_axes(const std::vector<Axis>& axes, const std::string& reducer) {
  if (axes.empty())
    throw_user_error("the reduction '" + reducer + "' is given no axes", {},
                     "make one with reduce_axis(extent)");
  for (const Axis& axis : axes) {
    if (axis.get() == nullptr)
      throw_user_error("the reduction '" + reducer + "' is given an unassigned Axis");
    if (axis->kind == AxisKind::Reduce) continue;
    const bool two_values = reducer == "max" || reducer == "min";
    throw_user_error(
        "the reduction '" + reducer + "' is over '" + axis.name() + "', which is a spatial axis",
        {},
        two_values ? "to compare the positions of two axes write " + reducer +
                         "(Expr(i), Expr(j)); to reduce, use a reduce_axis"
                   : "reduce over an axis made with reduce_axis");
  }
}

Expr reduce(ReduceKind kind, const char* name, Expr value, std::vector<Axis> axes) {
  check_axes(axes, name);
  if (!value.defined())
    throw_user_error("the reduction '" + std::string(name) + "' is given an unassigned Expr");
  const bool logical = kind == ReduceKind::Any || kind == ReduceKind::All;
  if (logical && !value.dtype().is_bool())
    throw_user_error("the reduction '" + std::string(name) + "' is given a value of type " +
                         to_string(value.dtype()),
                     {}, "it takes a bool: compare the value first, as in x != 0");
  if (!logical && value.dtype().is_bool())
    throw_user_error("the reduction '" + std::string(name) + "' is given a bool value", {},
                     "convert it first, as in sum(cast(i32, x), k), or use any or all");
  Ref<const Combiner> combiner = internal::builtin_combiner(kind, value.dtype());
  return make_reduce(std::move(combiner), {std::move(value)}, std::move(axes));
}

Expr reduce_in(DataType t, ReduceKind kind, const char* name, Expr value, std::vector<Axis> axes) {
  if (value.defined() && !value.dtype().is_bool() && value.dtype() != t) value = cast(t, value);
  return reduce(kind, name, std::move(value), std::move(axes));
}

/// The type of the reduced values. An undefined value may have any type, because `reduce` refuses
/// it.
DataType type_of(const Expr& value) { return value.defined() ? value.dtype() : f32; }

/// `combine` ignores NaN, which is its identity. Integers have no NaN, so `plain` serves them.
Expr reduce_number(const char* name, Expr (*combine)(Expr, Expr),
                   Expr (*plain)(Expr, std::vector<Axis>), Expr value, std::vector<Axis> axes) {
  check_axes(axes, name);
  if (!value.defined() || !value.dtype().is_float())
    return plain(std::move(value), std::move(axes));
  const DataType t = value.dtype();
  const Reducer made = reducer(name, {t}, {make_float(t, std::numeric_limits<double>::quiet_NaN())},
                               [&](const std::vector<Expr>& a, const std::vector<Expr>& b) {
                                 return std::vector<Expr>{combine(a[0], b[0])};
                               });
  return made({std::move(value)}, std::move(axes))[0];
}

const char* name_of(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::Sum: return "sum";
    case ReduceKind::Prod: return "prod";
    case ReduceKind::Min: return "min";
    case ReduceKind::Max: return "max";
    case ReduceKind::Any: return "any";
    case ReduceKind::All: return "all";
    case ReduceKind::Custom: break;
  }
  throw_user_error("a custom reduction has no built-in combiner", {}, "make one with reducer(...)");
}

/// The constant `value` in type `t`. A literal takes the type that is asked for where that type has
/// its value.
Expr identity_of(DataType t, const Expr& value, const std::string& who, const Where& where) {
  const IntImm* whole = value.as<IntImm>();
  const FloatImm* real = value.as<FloatImm>();
  const bool numbers = value.dtype().is_bool() == t.is_bool();
  const bool fits =
      whole ? t.is_float() || int_fits(t, whole->value)
            : real && t.is_float() &&
                  (!std::isfinite(real->value) || std::isfinite(round_float(t, real->value)));
  if (value.dtype() != t && !(numbers && fits))
    throw_user_error("the identity of " + who + " is " + to_string(value) + " of type " +
                         to_string(value.dtype()) + ", and its component is of type " +
                         to_string(t),
                     where, "give a constant of that type: make_const(" + to_string(t) + ", ...)");
  return cast(t, value);
}

/// The type in which sums and products of 16-bit floats are accumulated.
DataType accumulator_of(DataType t) { return t.is_float() && t.bits < 32 ? f32 : t; }

Ref<const Combiner> make_builtin(ReduceKind kind, DataType t) {
  auto combiner = make_ref<Combiner>();
  combiner->kind = kind;
  combiner->name = name_of(kind);
  const Var a("a", t), b("b", t);
  combiner->lhs = {a};
  combiner->rhs = {b};
  switch (kind) {
    case ReduceKind::Sum:
      combiner->result = {make_binary(BinaryOp::Add, a, b)};
      combiner->identity = {make_const(t, 0)};
      break;
    case ReduceKind::Prod:
      combiner->result = {make_binary(BinaryOp::Mul, a, b)};
      combiner->identity = {make_const(t, 1)};
      break;
    case ReduceKind::Min:
      combiner->result = {make_binary(BinaryOp::Min, a, b)};
      combiner->identity = {highest_value(t)};
      break;
    case ReduceKind::Max:
      combiner->result = {make_binary(BinaryOp::Max, a, b)};
      combiner->identity = {lowest_value(t)};
      break;
    case ReduceKind::Any:
      combiner->result = {make_binary(BinaryOp::Or, a, b)};
      combiner->identity = {Expr(false)};
      break;
    case ReduceKind::All:
      combiner->result = {make_binary(BinaryOp::And, a, b)};
      combiner->identity = {Expr(true)};
      break;
    case ReduceKind::Custom: break;
  }
  return combiner;
}

}  // namespace

Expr sum_in(DataType t, Expr value, std::vector<Axis> axes) {
  return reduce_in(t, ReduceKind::Sum, "sum", std::move(value), std::move(axes));
}
Expr prod_in(DataType t, Expr value, std::vector<Axis> axes) {
  return reduce_in(t, ReduceKind::Prod, "prod", std::move(value), std::move(axes));
}
Expr sum(Expr value, std::vector<Axis> axes) {
  const DataType t = type_of(value);
  return cast(t, sum_in(accumulator_of(t), std::move(value), std::move(axes)));
}
Expr prod(Expr value, std::vector<Axis> axes) {
  const DataType t = type_of(value);
  return cast(t, prod_in(accumulator_of(t), std::move(value), std::move(axes)));
}
Expr reduce_fmax(Expr value, std::vector<Axis> axes) {
  return reduce_number("fmax", fmax, reduce_max, std::move(value), std::move(axes));
}
Expr reduce_fmin(Expr value, std::vector<Axis> axes) {
  return reduce_number("fmin", fmin, reduce_min, std::move(value), std::move(axes));
}
Expr reduce_max(Expr value, std::vector<Axis> axes) {
  return reduce(ReduceKind::Max, "max", std::move(value), std::move(axes));
}
Expr reduce_min(Expr value, std::vector<Axis> axes) {
  return reduce(ReduceKind::Min, "min", std::move(value), std::move(axes));
}
Expr any(Expr condition, std::vector<Axis> axes) {
  return reduce(ReduceKind::Any, "any", std::move(condition), std::move(axes));
}
Expr all(Expr condition, std::vector<Axis> axes) {
  return reduce(ReduceKind::All, "all", std::move(condition), std::move(axes));
}

// One combiner for each kind and type in the whole process, so that equal reductions are found by
// comparing pointers.
Ref<const Combiner> internal::builtin_combiner(ReduceKind kind, DataType dtype) {
  using Key = std::pair<int, int>;
  static std::mutex mutex;
  static std::map<Key, Ref<const Combiner>> made;
  const Key key{static_cast<int>(kind), static_cast<int>(dtype.code) * 256 + dtype.bits};
  const std::lock_guard<std::mutex> lock(mutex);
  Ref<const Combiner>& combiner = made[key];
  if (!combiner) combiner = make_builtin(kind, dtype.element());
  return combiner;
}

Reducer reducer(std::string name, std::vector<DataType> types, std::vector<Expr> identity,
                const std::function<std::vector<Expr>(const std::vector<Expr>&,
                                                      const std::vector<Expr>&)>& combine,
                bool commutative, Where where) {
  const std::string who = "reducer '" + name + "'";
  const size_t n = types.size();
  if (n == 0) throw_user_error(who + " has no components", where, "give one type a component");
  if (identity.size() != n)
    throw_user_error(who + " has " + std::to_string(n) + " types but " +
                         std::to_string(identity.size()) + " identity values",
                     where, "give one identity a component");
  auto combiner = make_ref<Combiner>();
  combiner->kind = ReduceKind::Custom;
  combiner->name = std::move(name);
  combiner->commutative = commutative;
  std::vector<Expr> lhs, rhs;
  for (size_t i = 0; i < n; ++i) {
    const std::string suffix = n == 1 ? "" : std::to_string(i);
    combiner->lhs.emplace_back("a" + suffix, types[i]);
    combiner->rhs.emplace_back("b" + suffix, types[i]);
    lhs.push_back(combiner->lhs.back());
    rhs.push_back(combiner->rhs.back());
    if (!identity[i].defined() || !is_const(identity[i]))
      throw_user_error("identity " + std::to_string(i) + " of " + who + " is not a constant",
                       where);
    combiner->identity.push_back(identity_of(types[i], identity[i], who, where));
  }
  std::vector<Expr> result;
  internal::run_body(combiner->name, where, [&] { result = combine(lhs, rhs); });
  if (result.size() != n)
    throw_user_error("the combine of " + who + " returns " + std::to_string(result.size()) +
                         " values for " + std::to_string(n) + " components",
                     where, "return one value a component");
  for (size_t i = 0; i < n; ++i) {
    if (is_const(result[i])) result[i] = cast(types[i], result[i]);
    if (result[i].dtype() != types[i])
      throw_user_error("component " + std::to_string(i) + " of " + who + " has type " +
                           to_string(types[i]) + " but its combine gives " +
                           to_string(result[i].dtype()),
                       where, "convert it with cast(" + to_string(types[i]) + ", ...)");
    visit(result[i], [&](const Expr& e) {
      bool known = true;
      if (const VarNode* v = e.as<VarNode>()) {
        known = false;
        for (size_t c = 0; c < n; ++c)
          known = known || combiner->lhs[c].get() == v || combiner->rhs[c].get() == v;
      }
      if (!known || e.kind() == ExprKind::Load || e.kind() == ExprKind::Reduce)
        throw_user_error("the combine of " + who + " uses '" + to_string(e) + "'", where,
                         "a combine may use its two arguments and constants only");
    });
  }
  combiner->result = std::move(result);
  Reducer made;
  made.combiner_ = std::move(combiner);
  return made;
}

std::vector<Expr> Reducer::operator()(std::vector<Expr> sources, std::vector<Axis> axes) const {
  if (!combiner_) throw_user_error("a Reducer that was never assigned is used");
  const std::string who = "reducer '" + combiner_->name + "'";
  check_axes(axes, combiner_->name);
  if (sources.size() != combiner_->size())
    throw_user_error(who + " has " + std::to_string(combiner_->size()) +
                         " components but is given " + std::to_string(sources.size()) + " values",
                     {}, "give one value a component");
  for (size_t i = 0; i < sources.size(); ++i) {
    const DataType want = combiner_->lhs[i]->dtype;
    if (is_const(sources[i])) sources[i] = cast(want, sources[i]);
    if (sources[i].dtype() != want)
      throw_user_error("component " + std::to_string(i) + " of " + who + " has type " +
                           to_string(want) + " but is given '" + to_string(sources[i]) +
                           "' of type " + to_string(sources[i].dtype()),
                       {}, "convert it with cast(" + to_string(want) + ", ...)");
  }
  std::vector<Expr> components;
  for (size_t i = 0; i < sources.size(); ++i)
    components.push_back(make_reduce(combiner_, sources, axes, static_cast<int>(i)));
  return components;
}

Expr lowest_value(DataType t) {
  if (t.is_float()) return make_float(t, -std::numeric_limits<double>::infinity());
  if (!t.is_int()) return make_int(t, 0);
  return make_int(
      t, t.bits == 64 ? std::numeric_limits<int64_t>::min() : -(int64_t{1} << (t.bits - 1)));
}

Expr highest_value(DataType t) {
  if (t.is_float()) return make_float(t, std::numeric_limits<double>::infinity());
  if (t.is_bool()) return Expr(true);
  if (t.is_int())
    return make_int(
        t, t.bits == 64 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << (t.bits - 1)) - 1);
  // 64-bit unsigned constants are kept as the i64 of the same bits.
  return make_int(t, t.bits == 64 ? -1 : (int64_t{1} << t.bits) - 1);
}

}  // namespace heddle
