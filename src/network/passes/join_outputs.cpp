// On a GPU an output and outputs that it reads element by element are one stage of several outputs: what they read is
// read once, and one launch writes all. So is what an optimiser makes of a gradient, or a result and its relu.
//
//   m' = 0.9 m + g                  (an output, which updates m)                                     (before)
//   w' = w - 0.01 m'                (an output, which updates w)
//
//   m', w' = 0.9 m + g, w - 0.01 (0.9 m + g)                                                         (after)
//
// The stage waits for what any of its outputs needs. So nothing outside of it may lie between them, where stages that
// were made before are one each.
#include <algorithm>
#include <map>
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

/// Stages that are one, by each of them.
using Joins = std::map<int, std::vector<int>>;

/// Whether something that `members` read outside of them needs one of them.
bool need_themselves(const ComputeDag& dag, const std::vector<int>& members, const Joins& joins) {
  std::vector<char> seen(static_cast<size_t>(dag.size()));
  std::vector<int> todo;
  const auto is_member = [&](int s) { return std::ranges::find(members, s) != members.end(); };
  const auto add = [&](int s) {
    if (seen[static_cast<size_t>(s)]) return;
    seen[static_cast<size_t>(s)] = 1;
    todo.push_back(s);
  };
  for (const int m : members) {
    for (const int p : dag.info(m).producers) {
      if (!is_member(p)) add(p);
    }
  }
  while (!todo.empty()) {
    const int at = todo.back();
    todo.pop_back();
    if (is_member(at)) return true;
    for (const int p : dag.info(at).producers) add(p);
    const auto with = joins.find(at);
    if (with == joins.end()) continue;
    for (const int other : with->second) add(other);
  }
  return false;
}

/// The outputs that `last` reads element by element and may be one with.
std::vector<int> outputs_before(const ComputeDag& dag, int last, const Joins& joins) {
  std::vector<int> out;
  for (const int p : dag.info(last).producers) {
    if (!is_elementwise_output(dag, p) || joins.contains(p) || !follows(dag, last, p) ||
        dag.info(p).points != dag.info(last).points)
      continue;
    std::vector<int> members = out;
    members.insert(members.end(), {p, last});
    const auto reads = [&](int q) { return depends_on(dag, p, q); };
    if (!std::ranges::any_of(out, reads) && !need_themselves(dag, members, joins)) out.push_back(p);
  }
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
  Joins joins;
  size_t left_out = 0;
  for (int s = dag.size() - 1; s >= 0; --s) {
    if (!is_elementwise_output(dag, s) || joins.contains(s)) continue;
    const std::vector<int> before = outputs_before(dag, s, joins);
    if (before.empty()) continue;
    const Ref<const Operation> all = joined(dag, before, s);
    for (size_t i = 0; i < before.size(); ++i)
      rebuilder.replace(dag.stage(before[i]).output(0), Tensor(all, static_cast<int>(i)));
    rebuilder.replace(dag.stage(s).output(0), Tensor(all, static_cast<int>(before.size())));
    std::vector<int> members = before;
    members.push_back(s);
    for (const int m : members) joins[m] = members;
    left_out += before.size();
  }
  if (left_out == 0) return dag.outputs();
  context.changed(std::to_string(left_out) +
                  " outputs are computed with what reads them element by element");
  return rebuilder.rebuild(dag.outputs());
}

}  // namespace heddle::network
