// On a GPU filters that change from call to call are rounded and stored with the elements of each sum one after
// another by a stage of their own, which waits for nothing and shares launches; a convolution would copy them first.
//
//   y[n, i, j, k] = sum over c, r, s of x[n, i + r, j + s, c] * bf16(w[k, c, r, s])                  (before)
//
//   p[k, r, s, c] = bf16(w[k, c, r, s])                                                              (after)
//   y[n, i, j, k] = sum over c, r, s of x[n, i + r, j + s, c] * p[k, r, s, c]
#include <algorithm>
#include <map>
#include <numeric>

#include "dag/map_loads.h"
#include "dag/patterns/look_through.h"
#include "network/passes/graph_pass.h"
#include "network/passes/map_graph.h"

namespace heddle::network {
namespace {

constexpr int kFilter = 4;  // dimensions

/// The input that `p` rounds element by element; null for all other stages.
Tensor rounded_input(const ComputeDag& dag, int p) {
  const Operation& op = dag.stage(p);
  const StageInfo& info = dag.info(p);
  if (op.is_placeholder() || op.num_outputs() != 1 || info.precomputable ||
      info.reads.size() != 1 || std::ssize(op.axes()) != kFilter ||
      info.reads[0].pattern != AccessPattern::Elementwise)
    return {};
  const Cast* cast = op.bodies()[0].as<Cast>();
  const Load* load = cast ? cast->value.as<Load>() : nullptr;
  const bool narrow = load && op.output(0).dtype().bytes() < load->buffer->dtype.bytes();
  if (!narrow || !tensor_of(load->buffer).op()->is_placeholder()) return {};
  return tensor_of(load->buffer);
}

/// The dimensions of a filter in the order in which a product adds it up: those that no sum runs over, taps, and
/// the channels. Empty where there are no taps, or no channels.
std::vector<int> order_of(const Operation& product, const Access& filter) {
  std::vector<int> results, sums;
  for (int d = 0; d < kFilter; ++d) {
    const bool moved = std::ranges::any_of(product.reduce_axes(), [&](const Axis& a) {
      return uses_var(filter.indices[static_cast<size_t>(d)], a.var());
    });
    (moved ? sums : results).push_back(d);
  }
  const auto channels =
      std::ranges::max_element(sums, {}, [&](int d) { return filter.tensor.extent(d); });
  if (results.empty() || sums.size() < 2 || filter.tensor.extent(*channels) < 16) return {};
  results.insert(results.end(), sums.begin(), channels);
  results.insert(results.end(), channels + 1, sums.end());
  results.push_back(*channels);
  return results;
}

Tensor packed(const Tensor& w, DataType type, const std::vector<int>& order) {
  Shape shape;
  for (const int d : order) shape.push_back(w.shape()[static_cast<size_t>(d)]);
  return compute(
      shape,
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> at(kFilter);
        for (int d = 0; d < kFilter; ++d)
          at[static_cast<size_t>(order[static_cast<size_t>(d)])] =
              i[static_cast<size_t>(d)].var().expr();
        return cast(type, w.at(at));
      },
      w.name() + "_packed", "pack", w.op()->where());
}

}  // namespace

std::vector<Tensor> pack_filters(const PassContext& context) {
  const ComputeDag& dag = context.dag;
  if (!context.target.is_cuda() || !context.enabled) return dag.outputs();
  std::map<std::pair<const BufferNode*, std::vector<int>>, Tensor> made;
  int changed = 0;
  std::vector<Tensor> outputs = map_graph(
      dag,
      [&](int s, const std::vector<Expr>& bodies) {
        if (dag.info(s).stage_class != StageClass::ComplexReduction) return bodies;
        for (const Access& a : dag.info(s).reads) {
          const Tensor w = a.producer >= 0 ? rounded_input(dag, a.producer) : Tensor();
          const std::vector<int> order = w ? order_of(dag.stage(s), a) : std::vector<int>();
          if (order.empty()) continue;
          Tensor& p = made[{a.tensor.buffer().get(), order}];
          if (!p) p = packed(w, a.tensor.dtype(), order);
          return dag::map_loads(bodies, [&](const Load& load) {
            if (load.buffer != a.tensor.buffer()) return make_load(load.buffer, load.indices);
            std::vector<Expr> at;
            for (const int d : order) at.push_back(load.indices[static_cast<size_t>(d)]);
            return p.at(at);
          });
        }
        return bodies;
      },
      &changed);
  if (changed == 0) return dag.outputs();
  context.changed(std::to_string(changed) + " products read filters that are packed once");
  return outputs;
}

}  // namespace heddle::network
