// What a stage is computed from, directly and through others.
#pragma once

#include <vector>

#include "heddle/dag/compute_dag.h"

namespace heddle {

/// Distinct, ascending stage indices: the producers of `stage`, theirs, and so on; `stage` itself
/// is not among them. Each edge is followed once, however many paths there are.
std::vector<int> all_producers(const ComputeDag& dag, int stage);

}  // namespace heddle
