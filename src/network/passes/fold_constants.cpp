// Folds constants: a stage that reads nothing is inlined into its readers.
//
//   index[]    = 1                                                                  (before)
//   part[i, j] = packed[max(0, min(2, index[])), i, j]
//
//   part[i, j] = packed[1, i, j]                                                    (after)
//
// Otherwise a number that is a node of a file would be a kernel, and a gather at it could not
// become a slice. Stages that depend on constant inputs need no pass: `prepare` computes them once.
#include "dag/map_loads.h"
#include "network/passes/graph_pass.h"
#include "network/passes/map_graph.h"
#include "network/passes/mover.h"

namespace heddle::network {
namespace {

// Operations that take no longer than a read.
constexpr double kFewFlops = 4;

bool is_formula(const ComputeDag& dag, int s) {
  const Operation& op = dag.stage(s);
  const StageInfo& info = dag.info(s);
  return !op.is_placeholder() && !op.is_reduction() && op.num_outputs() == 1 && !info.is_output &&
         info.reads.empty() && info.flops_per_point <= kFewFlops &&
         info.transcendentals_per_point == 0;
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
  std::vector<char> formula(static_cast<size_t>(dag.size()));
  for (int s = 0; s < dag.size(); ++s) formula[static_cast<size_t>(s)] = is_formula(dag, s);
  int changed = 0;
  std::vector<Tensor> outputs = map_graph(
      dag,
      [&](int s, const std::vector<Expr>& bodies) {
        bool any = false;
        std::vector<Expr> folded = dag::map_loads(bodies, [&](const Load& load) {
          const Tensor t = tensor_of(load.buffer);
          const int producer = dag.index_of(t.op());
          if (producer < 0 || !formula[static_cast<size_t>(producer)])
            return make_load(load.buffer, load.indices);
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
