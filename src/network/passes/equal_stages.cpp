// Small stages behind sums that compute the same are one. Each statistic of a norm is declared by whoever needs
// it, and gradients read those of all.
//
//   m[c] = s[c] / N;  w[c] = s[c] / N;  v[c] = q[c] - w[c] * w[c]                                  (before)
//   m[c] = s[c] / N;  v[c] = q[c] - m[c] * m[c]                                                    (after)
#include <algorithm>
#include <map>
#include <vector>

#include "dag/patterns/look_through.h"
#include "dag/rewrites/rebuilder.h"
#include "heddle/ir/simplify.h"
#include "network/passes/graph_pass.h"

namespace heddle::network {
namespace {

// Elements of a stage at most: such stages take a launch each and next to nothing else.
constexpr int64_t kMostElements = 1 << 16;
// Stages of one shape that are compared.
constexpr size_t kMostAlike = 256;

/// What a stage computes, in its own axes, in terms of reductions alone; nothing for all other stages.
Expr behind_sums(const ComputeDag& dag, int s) {
  const Operation& op = dag.stage(s);
  const StageInfo& info = dag.info(s);
  if (op.is_placeholder() || op.is_reduction() || info.scan || info.precomputable ||
      info.points > kMostElements || op.num_outputs() != 1 || op.bodies()[0].as<Load>())
    return {};
  dag::LookThrough look(dag);
  const Expr value = simplify(look.seen(op.bodies()[0]));
  bool reads = false, other = false;
  visit(value, [&](const Expr& e) {
    const Load* load = e.as<Load>();
    if (!load) return;
    const int of = look.stage_of(*load);
    reads = true;
    other = other || of < 0 || !dag.stage(of).is_reduction();
  });
  return reads && !other ? value : Expr();
}

bool computes_the_same(const Operation& a, const Expr& of_a, const Operation& b, const Expr& of_b) {
  if (a.output(0).dtype() != b.output(0).dtype()) return false;
  std::vector<VarBinding> bind;
  for (size_t i = 0; i < a.axes().size(); ++i) {
    if (!equal(a.axes()[i]->extent, b.axes()[i]->extent)) return false;
    bind.push_back({b.axes()[i].var(), a.axes()[i].var().expr()});
  }
  return equal(of_a, simplify(substitute(of_b, bind)));
}

}  // namespace

std::vector<Tensor> join_equal(const PassContext& context) {
  const ComputeDag& dag = context.dag;
  dag::Rebuilder rebuilder;
  std::map<std::vector<int64_t>, std::vector<std::pair<int, Expr>>> alike;  // by shape
  size_t left_out = 0;
  for (int s = 0; s < dag.size(); ++s) {
    const Expr value = behind_sums(dag, s);
    if (!value.defined()) continue;
    const Operation& op = dag.stage(s);
    std::vector<int64_t> shape;
    for (const Axis& a : op.axes()) {
      const IntImm* extent = a->extent.as<IntImm>();
      shape.push_back(extent ? extent->value : -1);
    }
    std::vector<std::pair<int, Expr>>& those = alike[shape];
    const auto same = std::ranges::find_if(those, [&](const auto& other) {
      return computes_the_same(dag.stage(other.first), other.second, op, value);
    });
    if (same != those.end() && !dag.info(s).is_output) {
      rebuilder.replace(op.output(0), dag.stage(same->first).output(0));
      ++left_out;
    } else if (those.size() < kMostAlike) {
      those.emplace_back(s, value);
    }
  }
  if (left_out == 0) return dag.outputs();
  context.changed(std::to_string(left_out) + " stages behind sums compute what others do");
  return rebuilder.rebuild(dag.outputs());
}

}  // namespace heddle::network
