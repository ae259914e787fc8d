// Launches of a program for a GPU as JSON: of exported kernels, and of candidates on their way
// between processes.
#pragma once

#include <vector>

#include "heddle/runtime/cuda_program.h"
#include "heddle/support/json.h"

namespace heddle::cuda {

Json launches_json(const std::vector<Launch>& launches);
/// Throws a User error for what launches_json does not give.
std::vector<Launch> launches_from(const Json& list);

}  // namespace heddle::cuda
