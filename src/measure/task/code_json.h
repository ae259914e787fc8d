// Serialised parts of compiled candidates, for messages between processes.
#pragma once

#include <string>
#include <vector>

#include "heddle/runtime/kernel.h"
#include "heddle/support/json.h"

namespace heddle::measuring {

/// Converts bytes to hexadecimal digits.
std::string to_hex(const std::string& bytes);
/// Throws a User error for other characters or an odd number of digits.
std::string from_hex(const std::string& text);

Json args_json(const std::vector<KernelArg>& args);
/// Throws a User error for JSON that args_json did not make.
std::vector<KernelArg> args_from_json(const Json& list);

}  // namespace heddle::measuring
