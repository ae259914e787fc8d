// On a GPU what an optimiser makes of one gradient is one stage of several outputs: the gradient, the weight
// and its states are read once, and one launch writes all.
//
//   m' = 0.9 m + g                  (an output, which updates m)                                     (before)
//   w' = w - 0.01 m'                (an output, which updates w)
//
//   m', w' = 0.9 m + g, w - 0.01 (0.9 m + g)                                                         (after)
#include <algorithm>
#include <set>
#include <vector>

#include "dag/map_loads.h"
#include "dag/patterns/look_through.h"
#include "dag/rewrites/rebuilder.h"
#include "network/passes/graph_pass.h"
#include "network/passes/mover.h"
#include "network/passes/product_chain.h"

namespace heddle::network {
namespace {

bool is_elementwise_output(const ComputeDag& dag, int s) {
  const StageInfo& info = dag.info(s);
  const Operation& op = dag.stage(s);
  return info.is_output && !op.is_placeholder() && !op.is_reduction() && !info.scan &&
         !info.precomputable && op.num_outputs() == 1;
}

/// The outputs that `last` reads element by element, where nothing else that it reads waits for them.
std::vector<int> outputs_before(const ComputeDag& dag, int last, const std::set<int>& taken) {
  std::vector<int> out;
  for (const int p : dag.info(last).producers) {
    if (is_elementwise_output(dag, p) && !taken.contains(p) && follows(dag, last, p) &&
        dag.info(p).points == dag.info(last).points)
      out.push_back(p);
  }
  const auto waits = [&](int p) {
    return std::ranges::any_of(dag.info(last).producers,
                               [&](int q) { return q != p && depends_on(dag, q, p); });
  };
  std::erase_if(out, waits);
  return out;
}

/// The stages `before` and `last` as one.
Ref<const Operation> joined(const ComputeDag& dag, const std::vector<int>& before, int last) {
  const Operation& end = dag.stage(last);
  const FreshAxes fresh(end);
  std::vector<Expr> at, bodies;
  for (const Axis& a : fresh.axes) at.push_back(a.var().expr());
  for (const int p : before)
    bodies.push_back(dag::at_indices(dag.stage(p), dag.stage(p).bodies()[0], at));
  const Expr of_end = substitute(end.bodies()[0], fresh.bindings);
  bodies.push_back(dag::map_loads({of_end}, [&](const Load& load) {
    for (size_t i = 0; i < before.size(); ++i) {
      if (dag.stage(before[i]).output(0).buffer() == load.buffer) return bodies[i];
    }
    return make_load(load.buffer, load.indices);
  })[0]);
  return Operation::make_compute(end.name(), fresh.axes, std::move(bodies), end.tag(), end.where());
}

}  // namespace

std::vector<Tensor> join_outputs(const PassContext& context) {
  const ComputeDag& dag = context.dag;
  if (!context.target.is_cuda()) return dag.outputs();
  dag::Rebuilder rebuilder;
  std::set<int> taken;
  size_t left_out = 0;
  for (int s = dag.size() - 1; s >= 0; --s) {
    if (!is_elementwise_output(dag, s) || taken.contains(s)) continue;
    const std::vector<int> before = outputs_before(dag, s, taken);
    if (before.empty()) continue;
    const Ref<const Operation> all = joined(dag, before, s);
    for (size_t i = 0; i < before.size(); ++i)
      rebuilder.replace(dag.stage(before[i]).output(0), Tensor(all, static_cast<int>(i)));
    rebuilder.replace(dag.stage(s).output(0), Tensor(all, static_cast<int>(before.size())));
    taken.insert(before.begin(), before.end());
    taken.insert(s);
    left_out += before.size();
  }
  if (left_out == 0) return dag.outputs();
  context.changed(std::to_string(left_out) +
                  " outputs are computed with what reads them element by element");
  return rebuilder.rebuild(dag.outputs());
}

}  // namespace heddle::network
