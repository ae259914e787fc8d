// Stores the weights of products with the elements of each sum one after another.
//
//   y[i, n] = sum over k of x[i, k] * w[k, n]                                       (before)
//
//   t[n, k] = w[k, n]                                                               once
//   y[i, n] = sum over k of x[i, k] * t[n, k]                                       (after)
//
// A product of one row is bound by the memory that its weights take. The threads that share a sum then read
// neighbouring elements, and no sum is cut over blocks, whose parts a second kernel would add. On a CPU the cores share
// the columns: where the strip of each is short, it would read a piece of every page of the matrix. Of a network
// over ranges, products that have one row at the least sizes are changed.
#include <map>

#include "dag/map_loads.h"
#include "dag/patterns/convolution.h"
#include "dag/rewrites/rewrite_parts.h"
#include "heddle/dag/factors.h"
#include "heddle/target/narrow_strips.h"
#include "network/passes/graph_pass.h"
#include "network/passes/map_graph.h"
#include "network/passes/mover.h"

namespace heddle::network {
namespace {

/// The constant matrix of which a product reads the columns; null for all other stages.
const Access* weights_by_column(const ComputeDag& dag, int s) {
  const StageInfo& info = dag.info(s);
  const Access* operands[2];
  if (info.stage_class != StageClass::ComplexReduction || info.precomputable ||
      dag.stage(s).reduce_axes().size() != 1 || !dag::match_contraction(dag, s, operands).empty())
    return nullptr;
  const Axis& k = dag.stage(s).reduce_axes()[0];
  for (const Access* a : operands) {
    if (!dag::is_constant_operand(dag, *a) || a->tensor.rank() != 2) continue;
    if (dag::plain_dimension(*a, k) == 0 && a->indices[1].as<VarNode>() != nullptr) return a;
  }
  return nullptr;
}

Tensor transposed(const Tensor& w) {
  return compute(
      {w.shape()[1], w.shape()[0]}, [&](Axis n, Axis k) { return w(k, n); }, w.name() + "_t",
      "transposed", w.op()->where());
}

/// The most bytes of an element of weights that are usually transposed: for more rows at another size of
/// a call, matrix units take both layouts of those.
constexpr int64_t kShortElement = 2;

int64_t rows_of(const Operation& product, const Access& weights) {
  int64_t rows = 1;
  for (const Axis& a : product.axes()) {
    if (!weights.depends_on(a)) rows *= a.extent();
  }
  return rows;
}

/// Whether a product reads these by columns where it had better not.
bool may_gain(const Target& target, const Access* weights) {
  if (weights == nullptr || target.is_cuda()) return weights != nullptr;
  const int64_t row = weights->tensor.extent(1) * weights->tensor.dtype().bytes();
  return has_narrow_strips(row, row * weights->tensor.extent(0), target);
}

/// Where wgmma takes weights only along the sum, as those of tf32, they are transposed for any number of rows.
bool usual(const PassContext& context, int s, const Access& weights) {
  const Operation& product = context.dag.stage(s);
  const bool only_along = context.target.is_cuda() && context.target.gpu.has_wgmma() &&
                          rounds_factors(product.bodies()[0].as<Reduce>()->sources[0]);
  const bool one_row =
      (!context.target.is_cuda() || weights.tensor.dtype().bytes() <= kShortElement) &&
      rows_of(product, weights) == 1;
  return context.enabled && (only_along || one_row);
}

}  // namespace

std::vector<Tensor> transpose_weights(const PassContext& context) {
  const ComputeDag& dag = context.dag;
  std::map<const BufferNode*, Tensor> made;
  int changed = 0;
  std::vector<Tensor> outputs = map_graph(
      dag,
      [&](int s, const std::vector<Expr>& bodies) {
        const Access* weights = weights_by_column(dag, s);
        if (!may_gain(context.target, weights) ||
            !context.choices.on(ChoiceKind::TransposeWeights, by_extents(weights->tensor.extents()),
                                usual(context, s, *weights), "weights are transposed"))
          return bodies;
        return dag::map_loads(bodies, [&](const Load& load) {
          if (tensor_of(load.buffer).op() != weights->tensor.op())
            return make_load(load.buffer, load.indices);
          Tensor& t = made[load.buffer.get()];
          if (!t) t = transposed(tensor_of(load.buffer));
          return t.at({load.indices[1], load.indices[0]});
        });
      },
      &changed);
  if (changed == 0) return dag.outputs();
  context.changed(std::to_string(changed) + " products read weights that are transposed once");
  return outputs;
}

}  // namespace heddle::network
