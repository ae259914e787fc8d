// Launches of a program for a GPU as JSON, for exported kernels and for messages between processes.
#pragma once

#include <vector>

#include "heddle/support/json.h"
#include "runtime/cuda/cuda_program.h"

namespace heddle::cuda {

Json launches_json(const std::vector<Launch>& launches);
/// Throws a User error for JSON that launches_json did not make.
std::vector<Launch> launches_from(const Json& list);

}  // namespace heddle::cuda
