// The kernels of a family as JSON, as records and `heddle report` read it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/family/choose.h"

namespace heddle::family {

/// The tree of a family that to_json wrote. Its questions are on the positions of their dimensions
/// among `sizes`. Throws a User error for a tree that is not one.
SizeTree size_tree_from_json(const Json& family, std::span<const Var> sizes);

/// The schedules of its variants, in order, on `dag`, the declaration over dimensions. Throws a
/// User error that names the first step that does not apply.
std::vector<Schedule> schedules_from_json(const Json& family, const ComputeDag& dag);

/// The whole result, without its kernel. `dims` are those of the JSON, in its order.
FamilyResult result_from_json(const Json& family, const ComputeDag& dag,
                              const std::vector<Dim>& dims);

}  // namespace heddle::family
