// Alternatives (dag/alternatives.h) of a declaration over a dimension.
#pragma once

#include <string>
#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/dsl/dim.h"

namespace heddle::family {

/// The alternative `name` of `outputs` over `n`: rules rewrite graphs of constant shapes, so it is
/// what the rewritten graphs at two sizes have in common (dag/generalize.h). A User error where
/// they differ in more than numbers that grow with the size.
ComputeDag alternative_over(const Dim& n, const std::vector<Tensor>& outputs,
                            const std::string& name);

}  // namespace heddle::family
