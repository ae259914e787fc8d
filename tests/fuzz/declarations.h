// Small declarations of several kinds, from which seeds are made.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/support/json.h"

namespace heddle::fuzz {

/// By name: "matmul", "conv", "softmax", ...
const std::map<std::string, Tensor>& sample_declarations();
/// The inputs of a graph, then its outputs.
std::vector<Tensor> all_args(const ComputeDag& dag);

/// `json` with corrected checksums of all declarations in it.
Json with_right_checksums(const Json& json);

}  // namespace heddle::fuzz
