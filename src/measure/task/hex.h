// Bytes as hexadecimal digits, in messages between processes.
#pragma once

#include <string>

namespace heddle::measuring {

/// Converts bytes to hexadecimal digits.
std::string to_hex(const std::string& bytes);
/// Throws a User error for other characters or an odd number of digits.
std::string from_hex(const std::string& text);

}  // namespace heddle::measuring
