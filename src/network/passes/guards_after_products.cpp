// Replaces weights of rows without a defined softmax by zeros after the product that reads them.
// PyTorch's exporters write this guard for rows whose keys are all masked. Without it the softmax
// and both products beside it are attention, which is computed as a whole.
//
//   w[i, j] = exp(x[i, j] - highest[i]) / total[i]                                  (before)
//   g[i, j] = isnan(w[i, j]) ? 0 : w[i, j]
//   y[i, d] = sum over j of g[i, j] * v[j, d]
//
//   z[i, d] = sum over j of w[i, j] * v[j, d]                                       (after)
//   y[i, d] = isnan(total[i]) ? 0 : z[i, d]
//
// The pass is for GPUs. Either all weights of a row are NaN, or none is: the largest exponential of
// a row is 1 where the maximum is finite, and in all other cases the total is NaN. Results differ
// where a guarded row meets an infinite or undefined v: the product 0 * v was NaN, and is 0.
#include <optional>
#include <utility>

#include "dag/map_loads.h"
#include "dag/patterns/look_through.h"
#include "dag/patterns/softmax.h"
#include "dag/rewrites/rebuilder.h"
#include "network/passes/graph_pass.h"
#include "network/passes/mover.h"
#include "network/passes/product_chain.h"

namespace heddle::network {
namespace {

/// A guarded operand of a product.
struct Guard {
  Expr weight;  ///< what is read in its place
  Expr total;   ///< the sum of the exponentials of the row, over the product's axes
};

class Finder {
 public:
  Finder(const ComputeDag& dag, int stage)
      : dag_(dag), op_(dag.stage(stage)), key_(op_.reduce_axes()[0]), look_(dag) {}

  /// Matches a read of a stage select(isnan(w), 0, w) where w is an element of a softmax over the
  /// product's reduce axis.
  std::optional<Guard> run(const Load& load) {
    const int s = look_.stage_of(load);
    if (!look_.is_between(s)) return std::nullopt;
    const Operation& guard = dag_.stage(s);
    const Select* select = guard.bodies()[0].as<Select>();
    if (!select || !is_const(select->on_true, 0) || !select->on_false.as<Load>())
      return std::nullopt;
    const Expr condition = look_.seen(dag::at_indices(guard, select->condition, load.indices));
    const Expr weight = look_.seen(dag::at_indices(guard, select->on_false, load.indices));
    const Unary* isnan = condition.as<Unary>();
    if (!isnan || isnan->op != UnaryOp::IsNan || !equal(isnan->a, weight)) return std::nullopt;
    const Expr total = total_of(dag::below_casts(weight));
    if (!total.defined()) return std::nullopt;
    return Guard{dag::at_indices(guard, select->on_false, load.indices), total};
  }

 private:
  /// The read of the total where `weight` is exp(..) / total or exp(..) * (1 / total).
  Expr total_of(const Expr& weight) {
    const Binary* b = weight.as<Binary>();
    if (!b || (b->op != BinaryOp::Div && b->op != BinaryOp::Mul)) return {};
    Expr power = b->a, total = b->b;
    if (b->op == BinaryOp::Mul) {
      if (!power.as<Unary>()) std::swap(power, total);
      const Binary* inverse = total.as<Binary>();
      if (!inverse || inverse->op != BinaryOp::Div || !is_const(inverse->a, 1)) return {};
      total = inverse->b;
    }
    const Load* load = total.as<Load>();
    return load && sums(*load, power) ? total : Expr();
  }

  /// Whether the read stage is the sum of a softmax's exponentials, of which `power` is one.
  bool sums(const Load& load, const Expr& power) {
    const int s = look_.stage_of(load);
    dag::Softmax softmax;
    if (s < 0 || !dag::match_softmax(dag_, s, &softmax).empty()) return false;
    const Operation& total = dag_.stage(s);
    if (total.reduce_axes().size() != 1 || total.reduce_axes()[0].extent() != key_.extent())
      return false;
    for (const Expr& i : load.indices) {
      if (uses_var(i, key_.var())) return false;
    }
    std::vector<VarBinding> to{{total.reduce_axes()[0].var(), key_.var().expr()}};
    for (size_t d = 0; d < load.indices.size(); ++d)
      to.push_back({total.axes()[d].var(), load.indices[d]});
    const Expr source = look_.seen(total.bodies()[0].as<Reduce>()->sources[0]);
    return equal(substitute(source, to), power);
  }

  const ComputeDag& dag_;
  const Operation& op_;
  const Axis& key_;
  dag::LookThrough look_;
};

/// The stage that rounds the product and is all that reads it, or the product itself. A guard is
/// computed with the rounding.
int rounded(const ComputeDag& dag, int s) {
  if (!is_private(dag, s)) return s;
  const int reader = dag.info(s).consumers[0];
  if (!follows(dag, reader, s)) return s;
  const Cast* cast = dag.stage(reader).bodies()[0].as<Cast>();
  return cast && cast->value.as<Load>() ? reader : s;
}

/// Stage `last`, which is product `s` or rounds it, with the guard of an operand after the product;
/// null where the product has no guard.
Tensor rewritten(const ComputeDag& dag, int s, int last) {
  const Operation& op = dag.stage(s);
  const Reduce* r = op.is_placeholder() ? nullptr : dag::reduction_of(op, ReduceKind::Sum, 1);
  const Binary* mul = r ? r->sources[0].as<Binary>() : nullptr;
  if (!mul || mul->op != BinaryOp::Mul) return {};
  std::optional<Guard> found;
  const Load* guarded = nullptr;
  for (const Expr& operand : {mul->a, mul->b}) {
    const Load* load = dag::below_casts(operand).as<Load>();
    if (!load || found) continue;
    found = Finder(dag, s).run(*load);
    if (found) guarded = load;
  }
  if (!found) return {};
  const FreshAxes fresh(op);
  std::vector<Expr> bodies = dag::map_loads(op.bodies(), [&](const Load& load) {
    const Expr same = make_load(load.buffer, load.indices);
    return load.buffer == guarded->buffer ? found->weight : same;
  });
  bodies[0] = substitute(bodies[0], fresh.bindings);
  const Tensor product =
      Operation::make_compute(op.name(), fresh.axes, std::move(bodies), op.tag(), op.where())
          ->output(0);
  const Operation& end = dag.stage(last);
  const DataType type = end.output(0).dtype();
  const Expr total = dag::at_indices(op, found->total, {end.axes().begin(), end.axes().end()});
  const Expr value =
      select(isnan(total), make_const(type, 0), heddle::cast(type, product(end.axes())));
  return Operation::make_compute(op.name() + "_guarded", end.axes(), {value}, "where", op.where())
      ->output(0);
}

}  // namespace

std::vector<Tensor> guards_after_products(const PassContext& context) {
  const ComputeDag& dag = context.dag;
  // A chain of products on a CPU computes the guard with the weights, which it has in a block.
  if (!context.target.is_cuda()) return dag.outputs();
  dag::Rebuilder rebuilder;
  int found = 0;
  for (int s = 0; s < dag.size(); ++s) {
    if (dag.info(s).scan || dag.info(s).precomputable) continue;
    const int last = rounded(dag, s);
    const Tensor made = rewritten(dag, s, last);
    if (!made) continue;
    rebuilder.replace(dag.stage(last).output(0), made);
    ++found;
  }
  if (found == 0) return dag.outputs();
  context.changed("rows without a softmax become zero after " + std::to_string(found) +
                  " products");
  return rebuilder.rebuild(dag.outputs());
}

}  // namespace heddle::network
