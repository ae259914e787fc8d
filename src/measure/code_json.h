// Parts of compiled candidates on their way between processes.
#pragma once

#include <string>
#include <vector>

#include "heddle/runtime/kernel.h"
#include "heddle/support/json.h"

namespace heddle::measuring {

/// Bytes as hexadecimal digits.
std::string to_hex(const std::string& bytes);
/// Throws a User error for what has other characters, or an odd number of them.
std::string from_hex(const std::string& text);

Json args_json(const std::vector<KernelArg>& args);
/// Throws a User error for what args_json does not give.
std::vector<KernelArg> args_from_json(const Json& list);

}  // namespace heddle::measuring
