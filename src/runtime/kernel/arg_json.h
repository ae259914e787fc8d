// Arguments of kernels as JSON, for exported kernels and for messages between processes.
#pragma once

#include <vector>

#include "heddle/runtime/kernel.h"
#include "heddle/support/json.h"

namespace heddle {

/// Members that have their usual value are left out.
Json arg_to_json(const KernelArg& arg);
Json args_to_json(const std::vector<KernelArg>& args);
/// Throw a User error for JSON that is no argument.
KernelArg arg_from_json(const Json& json);
std::vector<KernelArg> args_from_json(const Json& list);

}  // namespace heddle
