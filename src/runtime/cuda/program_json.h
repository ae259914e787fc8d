// Programs for a GPU as JSON, without their machine code, for exported kernels and for messages between processes.
#pragma once

#include "heddle/support/json.h"
#include "runtime/cuda/cuda_program.h"

namespace heddle::cuda {

Json to_json(const Program& program);
/// Throws a User error for JSON that to_json did not make.
Program program_from_json(const Json& json);

}  // namespace heddle::cuda
