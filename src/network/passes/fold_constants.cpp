// Folds constants: a stage that reads nothing is inlined into its readers.
//
//   index[]    = 1                                                                  (before)
//   part[i, j] = packed[max(0, min(2, index[])), i, j]
//
//   part[i, j] = packed[1, i, j]                                                    (after)
//
// So is one that read such stages alone, as a number that a file reshapes before it is used.
// Otherwise a number that is a node of a file would be a kernel, and a gather at it could not
// become a slice. Stages that depend on constant inputs need no pass: `prepare` computes them once.
#include <map>

#include "dag/map_loads.h"
#include "network/passes/graph_pass.h"
#include "network/passes/map_graph.h"
#include "network/passes/mover.h"

namespace heddle::network {
namespace {

// Operations that take no longer than a read.
constexpr double kFewFlops = 4;

/// Whether the stage, which may be one that this pass made, reads nothing and is cheap.
bool is_formula(const Tensor& t) {
  const Operation& op = *t.op();
  if (op.is_placeholder() || op.is_reduction() || op.num_outputs() != 1 || !op.inputs().empty())
    return false;
  const ComputeDag alone({t});
  const StageInfo& info = alone.info(0);
  return info.flops_per_point <= kFewFlops && info.transcendentals_per_point == 0;
}

/// Simplifies indices, so that what was an element of a tensor of indices becomes a number.
Expr with_simple_indices(const Expr& body, const Ranges& ranges) {
  return dag::map_loads({body},
                        [&](const Load& load) {
                          std::vector<Expr> at;
                          for (const Expr& i : load.indices) at.push_back(simplify(i, ranges));
                          return make_load(load.buffer, std::move(at));
                        })
      .front();
}

}  // namespace

std::vector<Tensor> fold_constants(const PassContext& context) {
  const ComputeDag& dag = context.dag;
  std::map<const Operation*, bool> formulas;
  const auto folds = [&](const Tensor& t) {
    const int stage = dag.index_of(t.op());
    if (stage >= 0 && dag.info(stage).is_output) return false;
    const auto [found, is_new] = formulas.emplace(t.op(), false);
    if (is_new) found->second = is_formula(t);
    return found->second;
  };
  int changed = 0;
  std::vector<Tensor> outputs = map_graph(
      dag,
      [&](int s, const std::vector<Expr>& bodies) {
        bool any = false;
        std::vector<Expr> folded = dag::map_loads(bodies, [&](const Load& load) {
          const Tensor t = tensor_of(load.buffer);
          if (!folds(t)) return make_load(load.buffer, load.indices);
          any = true;
          std::vector<VarBinding> at;
          for (size_t d = 0; d < load.indices.size(); ++d)
            at.push_back({t.op()->axes()[d].var(), load.indices[d]});
          return substitute(t.op()->bodies()[0], at);
        });
        if (!any) return bodies;
        const Ranges ranges = ranges_of(dag.stage(s));
        for (Expr& body : folded) body = with_simple_indices(body, ranges);
        context.changed("'" + dag.stage(s).name() + "' computes what it read from a stage " +
                        "without inputs");
        return folded;
      },
      &changed);
  return changed > 0 ? outputs : dag.outputs();
}

}  // namespace heddle::network
