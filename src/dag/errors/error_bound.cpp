#include "dag/errors/error_bound.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "dag/errors/error_expr.h"
#include "heddle/dag/factors.h"
#include "heddle/support/error.h"
#include "ir/reads.h"

namespace heddle {
namespace {

using dag::Bounded;
using dag::ErrorExpr;

// The largest size of a body, counted as a tree. Larger bodies take more than a second to compile.
constexpr double kLargestTree = 20000;
constexpr double kTf32Roundings = 0x1p-10;  // error of a product, half from each operand
// What wgmma cuts from the terms of a sum of 8-bit floats, relative to the sum of their sizes.
constexpr double kFloat8Sums = 0x1p-7;

DataType value_type(DataType t) { return t.is_float() ? f64 : t; }
DataType error_type(DataType t) { return t.is_bool() ? boolean : f64; }

Expr nothing(DataType t) { return t.is_bool() ? make_const(boolean, 0) : make_float(f64, 0); }

/// Declares the stages of a graph again, producers first.
class Declarer {
 public:
  Declarer(const ComputeDag& dag, const ErrorModel& model) : dag_(dag), model_(model) {}

  std::vector<BoundedOutput> declare() {
    for (int i = 0; i < dag_.size(); ++i) declare_stage(i);
    std::vector<BoundedOutput> out;
    for (const Tensor& t : dag_.outputs()) out.push_back(made_.at(t.buffer().get()));
    return out;
  }

 private:
  void declare_stage(int i) {
    const Operation& op = dag_.stage(i);
    if (op.is_placeholder()) {
      made_[op.output_buffer(0).get()] = {op.output(0), {}};
    } else if (!op.is_reduction()) {
      declare_bodies(op);
    } else {
      declare_reduction(op, dag_.info(i));
    }
  }

  Bounded load(const Load& l, std::vector<Expr> indices) const {
    const BoundedOutput& from = made_.at(l.buffer.get());
    Expr value = from.value.at(indices);
    if (value.dtype().is_float() && value.dtype() != f64) value = cast(f64, value);
    return {value, from.error ? from.error.at(std::move(indices)) : Expr()};
  }

  static std::vector<int64_t> extents_of(const Operation& op) { return op.output(0).extents(); }
  static Shape shape_of(const Operation& op) {
    Shape shape;
    for (const int64_t e : extents_of(op)) shape.push_back(Expr(e));
    return shape;
  }

  // The replacements of the axes of `op` in a new declaration.
  static std::vector<std::pair<Var, Bounded>> bind(const std::vector<Axis>& old,
                                                   const std::vector<Axis>& axes) {
    std::vector<std::pair<Var, Bounded>> out;
    for (size_t d = 0; d < old.size(); ++d) out.push_back({old[d].var(), {axes[d], {}}});
    return out;
  }

  void check_size(const std::vector<Expr>& bodies, const Operation& op) const {
    TreeSizes known;
    for (const Expr& e : bodies) {
      if (tree_size(e, known) < kLargestTree) continue;
      throw_user_error("the errors of '" + op.name() + "' cannot be followed: it is too large",
                       op.where());
    }
  }

  void declare_bodies(const Operation& op) {
    std::vector<int> with_error;  // the component of the new operation that is the error; -1: exact
    const std::vector<Tensor> made = compute_all(
        shape_of(op),
        [&](const std::vector<Axis>& axes) {
          std::vector<Expr> values, errors;
          const auto read = [&](const Load& l, std::vector<Expr> i) {
            return load(l, std::move(i));
          };
          ErrorExpr follow(bind(op.axes(), axes), read);
          for (const Expr& body : op.bodies()) {
            const Bounded b = follow.follow(body);
            values.push_back(b.value);
            with_error.push_back(b.error.defined() ? static_cast<int>(errors.size()) : -1);
            if (!b.error.defined()) continue;
            errors.push_back(body.dtype().is_float()
                                 ? dag::stored_error(body.dtype(), b.value, b.error)
                                 : b.error);
          }
          values.insert(values.end(), errors.begin(), errors.end());
          check_size(values, op);
          return values;
        },
        op.name() + ".value");
    const size_t count = op.bodies().size();
    for (size_t c = 0; c < count; ++c) {
      BoundedOutput out{made[c], {}};
      if (with_error[c] >= 0) out.error = made[count + static_cast<size_t>(with_error[c])];
      made_[op.output_buffer(static_cast<int>(c)).get()] = out;
    }
  }

  /// A reduction of the result of `source` for the processed sources.
  template <class F>
  Tensor reduce(const Operation& op, const char* suffix, F source) {
    return compute(
        shape_of(op),
        [&](const std::vector<Axis>& axes) {
          std::vector<Axis> over;
          for (const Axis& a : op.reduce_axes()) over.push_back(reduce_axis(a.extent(), a.name()));
          return source(axes, over);
        },
        op.name() + suffix);
  }

  std::vector<Bounded> sources(const Operation& op, const std::vector<Axis>& axes,
                               const std::vector<Axis>& over) {
    auto variables = bind(op.axes(), axes);
    for (const auto& b : bind(op.reduce_axes(), over)) variables.push_back(b);
    const auto read = [&](const Load& l, std::vector<Expr> i) { return load(l, std::move(i)); };
    ErrorExpr follow(std::move(variables), read);
    std::vector<Bounded> out;
    std::vector<Expr> all;
    for (const Expr& s : op.bodies()[0].as<Reduce>()->sources) {
      out.push_back(follow.follow(s));
      all.push_back(out.back().value);
      if (out.back().error.defined()) all.push_back(out.back().error);
    }
    check_size(all, op);
    return out;
  }

  void declare_reduction(const Operation& op, const StageInfo& info) {
    const auto& r = *op.bodies()[0].as<Reduce>();
    if (r.combiner->kind == ReduceKind::Custom) return declare_custom(op, *r.combiner);
    const DataType type = op.bodies()[0].dtype();
    BoundedOutput out;
    bool exact = true;
    out.value = reduce(op, ".value", [&](const auto& axes, const auto& over) {
      const Bounded s = sources(op, axes, over)[0];
      exact = !s.error.defined();
      return make_reduce(internal::builtin_combiner(r.combiner->kind, value_type(type)), {s.value},
                         over);
    });
    const bool rounds = type.is_float() && (r.combiner->kind == ReduceKind::Sum ||
                                            r.combiner->kind == ReduceKind::Prod);
    if (rounds || !exact) out.error = error_of(op, info, r.combiner->kind, out.value);
    made_[op.output_buffer(0).get()] = out;
  }

  Tensor error_of(const Operation& op, const StageInfo& info, ReduceKind kind,
                  const Tensor& value) {
    switch (kind) {
      case ReduceKind::Sum: return error_of_sum(op, info, value);
      case ReduceKind::Prod: return error_of_product(op, info, value);
      case ReduceKind::Any:
      case ReduceKind::All:
        return reduce(op, ".error", [&](const auto& axes, const auto& over) {
          return any(sources(op, axes, over)[0].error, over);
        });
      default: break;
    }
    return reduce(op, ".error", [&](const auto& axes, const auto& over) {
      return reduce_max(sources(op, axes, over)[0].error, over);
    });
  }

  Tensor error_of_sum(const Operation& op, const StageInfo& info, const Tensor& value) {
    const DataType type = op.bodies()[0].dtype();
    const bool product = info.stage_class == StageClass::ComplexReduction;
    const double n = static_cast<double>(info.reduce_points);
    double each = type.is_float() ? (8 + 4 * std::sqrt(n)) * dag::unit_roundoff(type) : 0;
    // Units differ in which way they round what lies halfway.
    const bool tf32 = model_.tf32 || rounds_factors(op.bodies()[0].as<Reduce>()->sources[0]);
    if (tf32 && product && type == f32) each += kTf32Roundings;
    const auto is_float8 = [](const Access& a) { return a.tensor.dtype().is_float8(); };
    if (product && std::any_of(info.reads.begin(), info.reads.end(), is_float8))
      each += kFloat8Sums;
    const auto term = [&](const auto& axes, const auto& over) {
      const Bounded s = sources(op, axes, over)[0];
      if (each == 0) return sum(s.error, over);
      const Expr rounding = make_float(f64, each) * abs(s.value);
      return sum(dag::add_errors(s.error, rounding), over);
    };
    const Tensor own = by_norms(op, each) ? error_of_norms(op, each) : reduce(op, ".error", term);
    if (!type.is_float()) return own;
    const bool by_largest = model_.by_largest && product && own.rank() > 0;
    Tensor most;
    if (by_largest) most = largest_of(own);
    return compute(
        shape_of(op),
        [&](const std::vector<Axis>& axes) {
          Expr error = own(axes);
          if (by_largest) error = error + most.at({});
          return dag::stored_error(type, value(axes), error);
        },
        op.name() + ".error");
  }

  static const Binary* product_of(const Operation& op) {
    const auto* b = op.bodies()[0].as<Reduce>()->sources[0].as<Binary>();
    return b && b->op == BinaryOp::Mul && b->dtype.is_float() ? b : nullptr;
  }

  static std::vector<Axis> axes_of(const Operation& op, const Expr& factor) {
    std::vector<Axis> used;
    for (const Axis& a : op.axes()) {
      if (uses_var(factor, a.var())) used.push_back(a);
    }
    return used;
  }

  /// Whether the terms are products of exact factors neither of which depends on all axes.
  bool by_norms(const Operation& op, double each) {
    const Binary* p = product_of(op);
    if (!p || each == 0) return false;
    const size_t all = op.axes().size();
    if (axes_of(op, p->a).size() == all || axes_of(op, p->b).size() == all) return false;
    bool exact = true;
    const auto look = [&](const Expr& e) {
      if (const auto* l = e.as<Load>()) exact = exact && !made_.at(l->buffer.get()).error;
      if (const auto* u = e.as<Unary>()) exact = exact && u->dtype.is_bool();
      if (const auto* b = e.as<Binary>()) exact = exact && !b->dtype.is_float();
      if (const auto* c = e.as<Cast>()) exact = exact && c->dtype.bits >= c->value.dtype().bits;
    };
    visit(p->a, look);
    visit(p->b, look);
    return exact;
  }

  // The sum of the squares of `factor` over the reduce axes that it depends on.
  Tensor squares(const Operation& op, const Expr& factor) {
    const std::vector<Axis> used = axes_of(op, factor);
    Shape shape;
    for (const Axis& a : used) shape.push_back(Expr(a.extent()));
    return compute(
        shape,
        [&](const std::vector<Axis>& axes) {
          std::vector<Axis> over;
          for (const Axis& a : op.reduce_axes()) over.push_back(reduce_axis(a.extent(), a.name()));
          auto variables = bind(used, axes);
          for (const auto& b : bind(op.reduce_axes(), over)) variables.push_back(b);
          const auto read = [&](const Load& l, std::vector<Expr> i) {
            return load(l, std::move(i));
          };
          const Expr f = ErrorExpr(std::move(variables), read).follow(factor).value;
          return sum(f * f, over);
        },
        op.name() + ".squares");
  }

  // By Cauchy and Schwarz, the sum of |a b| is at most the root of the sum of a a times the sum of
  // b b. These two sums are computed for a row and a column, whereas the sum of |a b| takes a whole
  // matrix.
  Tensor error_of_norms(const Operation& op, double each) {
    const Binary* p = product_of(op);
    const Tensor a = squares(op, p->a), b = squares(op, p->b);
    return compute(
        shape_of(op),
        [&](const std::vector<Axis>& axes) {
          const auto at = [&](const Expr& factor) {
            std::vector<Expr> indices;
            for (size_t d = 0; d < axes.size(); ++d) {
              if (uses_var(factor, op.axes()[d].var())) indices.push_back(axes[d]);
            }
            return indices;
          };
          return make_float(f64, each) * sqrt(a.at(at(p->a)) * b.at(at(p->b)));
        },
        op.name() + ".error");
  }

  static Tensor largest_of(const Tensor& t) {
    return compute(
        {},
        [&](const std::vector<Axis>&) {
          std::vector<Axis> over;
          for (const int64_t e : t.extents()) over.push_back(reduce_axis(e));
          return reduce_max(t(over), over);
        },
        t.name() + ".largest");
  }

  // Adds the errors of the factors and n roundings.
  Tensor error_of_product(const Operation& op, const StageInfo& info, const Tensor& value) {
    const DataType type = op.bodies()[0].dtype();
    const Tensor most = reduce(op, ".most", [&](const auto& axes, const auto& over) {
      const Bounded s = sources(op, axes, over)[0];
      const Expr size = abs(s.value.dtype() == f64 ? s.value : cast(f64, s.value));
      return make_reduce(internal::builtin_combiner(ReduceKind::Prod, f64),
                         {dag::add_errors(size, s.error)}, over);
    });
    const double n = static_cast<double>(info.reduce_points);
    return compute(
        shape_of(op),
        [&](const std::vector<Axis>& axes) {
          const Expr right = value(axes);
          const Expr size = abs(right.dtype() == f64 ? right : cast(f64, right));
          const Expr error = most(axes) - size;
          if (!type.is_float()) return Expr(error);
          const double roundings = 2 * n * dag::unit_roundoff(type);
          return dag::stored_error(type, right, error + make_float(f64, roundings) * most(axes));
        },
        op.name() + ".error");
  }

  // A reducer of twice the components: values, then their errors.
  void declare_custom(const Operation& op, const Combiner& c) {
    const size_t count = c.size();
    std::vector<DataType> types, error_types;
    std::vector<Expr> identity, no_error;
    const auto no_load = [](const Load&, std::vector<Expr>) -> Bounded {
      HEDDLE_ICHECK(false, "a combiner reads nothing");
      return {};
    };
    for (size_t i = 0; i < count; ++i) {
      const DataType t = c.lhs[i]->dtype;
      types.push_back(value_type(t));
      error_types.push_back(error_type(t));
      identity.push_back(ErrorExpr({}, no_load).follow(c.identity[i]).value);
      no_error.push_back(nothing(t));
    }
    types.insert(types.end(), error_types.begin(), error_types.end());
    identity.insert(identity.end(), no_error.begin(), no_error.end());
    const Reducer both = reducer(
        c.name, types, identity,
        [&](const std::vector<Expr>& a, const std::vector<Expr>& b) {
          std::vector<std::pair<Var, Bounded>> variables;
          for (size_t i = 0; i < count; ++i) {
            variables.push_back({c.lhs[i], {a[i], a[count + i]}});
            variables.push_back({c.rhs[i], {b[i], b[count + i]}});
          }
          ErrorExpr follow(std::move(variables), no_load);
          std::vector<Expr> values, errors;
          for (const Expr& r : c.result) {
            const Bounded bounded = follow.follow(r);
            values.push_back(bounded.value);
            errors.push_back(bounded.error.defined() ? bounded.error : nothing(r.dtype()));
          }
          values.insert(values.end(), errors.begin(), errors.end());
          check_size(values, op);
          return values;
        },
        c.commutative);
    const std::vector<Tensor> made = compute_all(
        shape_of(op),
        [&](const std::vector<Axis>& axes) {
          std::vector<Axis> over;
          for (const Axis& a : op.reduce_axes()) over.push_back(reduce_axis(a.extent(), a.name()));
          std::vector<Expr> values, errors;
          for (const Bounded& s : sources(op, axes, over)) {
            values.push_back(s.value);
            errors.push_back(s.error.defined() ? s.error : nothing(s.value.dtype()));
          }
          values.insert(values.end(), errors.begin(), errors.end());
          return both(values, over);
        },
        op.name() + ".value");
    for (const Expr& body : op.bodies()) {
      const auto component = static_cast<size_t>(body.as<Reduce>()->index);
      const auto at = static_cast<size_t>(&body - op.bodies().data());
      made_[op.output_buffer(static_cast<int>(at)).get()] = {made[component],
                                                             made[count + component]};
    }
  }

  const ComputeDag& dag_;
  const ErrorModel& model_;
  std::unordered_map<const BufferNode*, BoundedOutput> made_;
};

}  // namespace

std::vector<BoundedOutput> declare_error_bounds(const ComputeDag& dag, const ErrorModel& model) {
  return Declarer(dag, model).declare();
}

}  // namespace heddle
