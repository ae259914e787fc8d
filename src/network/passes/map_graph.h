// Makes a graph again with the bodies of its stages changed.
#pragma once

#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/support/function_ref.h"

namespace heddle::network {

/// The outputs of `dag` with the bodies of each computed stage replaced by what `rewrite` returns.
/// Producers come first: the bodies that are passed to `rewrite` read the rewritten stages. Shapes
/// and types stay. A stage whose bodies stay equal remains the same object, and one whose new reads
/// cannot be proved to be in bounds keeps its bodies. `changed` counts the stages that `rewrite`
/// itself changed.
std::vector<Tensor> map_graph(
    const ComputeDag& dag,
    FunctionRef<std::vector<Expr>(int stage, const std::vector<Expr>& bodies)> rewrite,
    int* changed);

/// A graph made again.
struct StageMap {
  std::vector<Ref<const Operation>> stages;  ///< what each stage of the graph became
  std::vector<Tensor> outputs;
  int changed = 0;  ///< stages that `rewrite` itself changed
};
StageMap map_stages(
    const ComputeDag& dag,
    FunctionRef<std::vector<Expr>(int stage, const std::vector<Expr>& bodies)> rewrite);

/// `op` over other axes, with other bodies. Null where their reads cannot be proved to be in
/// bounds.
Ref<const Operation> declared_again(const Operation& op, const std::vector<Axis>& axes,
                                    std::vector<Expr> bodies);

}  // namespace heddle::network
