// 64-bit numbers in JSON, written as text because most readers take JSON numbers for doubles.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace heddle::records {

/// "0123456789abcdef": always sixteen digits.
std::string to_hex(uint64_t value);
/// False where `text` is not one to sixteen hexadecimal digits.
bool parse_hex(std::string_view text, uint64_t* value);

}  // namespace heddle::records
