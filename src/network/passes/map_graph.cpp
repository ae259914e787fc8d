#include "network/passes/map_graph.h"

#include <algorithm>

#include "dag/map_loads.h"
#include "heddle/support/error.h"

namespace heddle::network {
namespace {

bool all_equal(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Expr& x, const Expr& y) { return equal(x, y); });
}

}  // namespace

Ref<const Operation> declared_again(const Operation& op, const std::vector<Axis>& axes,
                                    std::vector<Expr> bodies) {
  try {
    return Operation::make_compute(op.name(), axes, std::move(bodies), op.tag(), op.where());
  } catch (const Error& e) {
    if (e.kind != ErrorKind::User) throw;
    return {};
  }
}

StageMap map_stages(
    const ComputeDag& dag,
    FunctionRef<std::vector<Expr>(int stage, const std::vector<Expr>& bodies)> rewrite) {
  StageMap map;
  std::vector<Ref<const Operation>>& now = map.stages;
  const auto tensor_now = [&](const Tensor& t) {
    return now[static_cast<size_t>(dag.index_of(t.op()))]->output(t.index());
  };
  for (int s = 0; s < dag.size(); ++s) {
    const Operation& op = dag.stage(s);
    now.push_back(dag.stage_ref(s));
    if (op.is_placeholder()) continue;
    const std::vector<Expr> redirected = dag::map_loads(op.bodies(), [&](const Load& load) {
      return make_load(tensor_now(tensor_of(load.buffer)).buffer(), load.indices);
    });
    std::vector<Expr> bodies = rewrite(s, redirected);
    if (all_equal(bodies, op.bodies())) continue;
    Ref<const Operation> made;
    if (!all_equal(bodies, redirected)) made = declared_again(op, op.axes(), std::move(bodies));
    if (made) {
      ++map.changed;
    } else if (!all_equal(redirected, op.bodies())) {
      made = declared_again(op, op.axes(), redirected);
      HEDDLE_ICHECK(made, "'" + op.name() + "' cannot be declared again");
    }
    if (made) now.back() = std::move(made);
  }
  for (const Tensor& t : dag.outputs()) map.outputs.push_back(tensor_now(t));
  return map;
}

std::vector<Tensor> map_graph(
    const ComputeDag& dag,
    FunctionRef<std::vector<Expr>(int stage, const std::vector<Expr>& bodies)> rewrite,
    int* changed) {
  StageMap map = map_stages(dag, rewrite);
  *changed = map.changed;
  return std::move(map.outputs);
}

}  // namespace heddle::network
