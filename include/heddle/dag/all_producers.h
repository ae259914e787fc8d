// The stages that a stage is computed from, directly and indirectly.
#pragma once

#include <vector>

#include "heddle/dag/compute_dag.h"

namespace heddle {

/// The distinct indices, in ascending order, of the direct and indirect producers of `stage`,
/// without `stage` itself. Each edge is followed once, however many paths there are.
std::vector<int> all_producers(const ComputeDag& dag, int stage);

}  // namespace heddle
