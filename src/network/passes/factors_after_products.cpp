// Multiplies the results of a product by the constant factors of its operands, instead of the
// operands. Operands that are left plain need no stage of their own, and the factor becomes part of
// what follows the product. Exporters write scaled attention with such factors.
//
//   q[i, k] = x[i, k] * 0.35;  r[j, k] = y[j, k] * 0.35                             (before)
//   p[i, j] = sum over k of q[i, k] * r[j, k]
//
//   s[i, j] = sum over k of x[i, k] * y[j, k];  p[i, j] = s[i, j] * 0.1225          (after)
//
// A product with weights keeps the factor of its operand, which ends the node that computes it.
// The product must accumulate in f32 or f64: a narrower result could overflow before its factor.
#include <optional>
#include <utility>

#include "dag/map_loads.h"
#include "dag/patterns/look_through.h"
#include "dag/rewrites/rebuilder.h"
#include "dag/rewrites/rewrite_parts.h"
#include "network/passes/graph_pass.h"
#include "network/passes/mover.h"

namespace heddle::network {
namespace {

/// What a stage reads that multiplies it by a constant, at the place of `load` in the stage.
struct Plain {
  Expr read;
  double factor = 1;
};

std::optional<Plain> without_factor(const ComputeDag& dag, const Load& load) {
  const int s = dag.index_of(tensor_of(load.buffer).op());
  if (s < 0 || dag.stage(s).is_placeholder() || dag.info(s).precomputable ||
      dag.stage(s).num_outputs() != 1)
    return std::nullopt;
  const Operation& op = dag.stage(s);
  const Binary* mul = op.bodies()[0].as<Binary>();
  if (!mul || mul->op != BinaryOp::Mul) return std::nullopt;
  for (const auto& [x, c] : {std::pair{mul->a, mul->b}, std::pair{mul->b, mul->a}}) {
    const FloatImm* factor = c.as<FloatImm>();
    if (factor && x.as<Load>()) return Plain{dag::at_indices(op, x, load.indices), factor->value};
  }
  return std::nullopt;
}

/// The product of the factors of both operands of a sum of products; 1 where there are none.
double factor_of(const ComputeDag& dag, const Operation& op) {
  const Reduce* r = op.is_placeholder() ? nullptr : dag::reduction_of(op, ReduceKind::Sum, 0);
  const Binary* mul = r ? r->sources[0].as<Binary>() : nullptr;
  if (!mul || mul->op != BinaryOp::Mul) return 1;
  double factor = 1;
  for (const Expr& operand : {mul->a, mul->b}) {
    const Load* load = dag::below_casts(operand).as<Load>();
    if (load && dag::is_constant_stage(dag, dag.index_of(tensor_of(load->buffer).op()))) return 1;
    if (const std::optional<Plain> plain = load ? without_factor(dag, *load) : std::nullopt)
      factor *= plain->factor;
  }
  return factor;
}

/// The stage with plain operands, times their factors.
Tensor rewritten(const ComputeDag& dag, const Operation& op, double factor) {
  const FreshAxes fresh(op);
  std::vector<Expr> bodies = dag::map_loads(op.bodies(), [&](const Load& load) {
    const std::optional<Plain> plain = without_factor(dag, load);
    return plain ? plain->read : make_load(load.buffer, load.indices);
  });
  bodies[0] = substitute(bodies[0], fresh.bindings);
  const Tensor plain =
      Operation::make_compute(op.name(), fresh.axes, std::move(bodies), op.tag(), op.where())
          ->output(0);
  return compute(
      plain.shape(),
      [&](const std::vector<Axis>& i) { return plain(i) * make_const(plain.dtype(), factor); },
      op.name() + "_scaled", "mul", op.where());
}

}  // namespace

std::vector<Tensor> factors_after_products(const PassContext& context) {
  const ComputeDag& dag = context.dag;
  dag::Rebuilder rebuilder;
  int found = 0;
  for (int s = 0; s < dag.size(); ++s) {
    const Operation& op = dag.stage(s);
    if (dag.info(s).scan || dag.info(s).precomputable || op.num_outputs() != 1) continue;
    const DataType type = op.output(0).dtype();
    const double factor = type == f32 || type == f64 ? factor_of(dag, op) : 1;
    if (factor == 1) continue;
    rebuilder.replace(op.output(0), rewritten(dag, op, factor));
    ++found;
  }
  if (found == 0) return dag.outputs();
  context.changed("the results of " + std::to_string(found) +
                  " products are multiplied by the factors of their operands");
  return rebuilder.rebuild(dag.outputs());
}

}  // namespace heddle::network
