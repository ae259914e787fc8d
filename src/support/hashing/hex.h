// Numbers and bytes as hexadecimal digits: in JSON, whose readers mostly take numbers for doubles, in
// keys, and in messages between processes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace heddle {

/// "0123456789abcdef": always sixteen digits.
std::string to_hex(std::uint64_t value);
/// False where `text` is not one to sixteen hexadecimal digits.
bool parse_hex(std::string_view text, std::uint64_t* value);

/// A key of 32 digits: two hashes of the text.
std::string key_of_text(std::string_view text);

/// Two digits for each byte.
std::string bytes_to_hex(std::string_view bytes);
/// Throws a User error for other characters or an odd number of digits.
std::string bytes_from_hex(std::string_view text);

}  // namespace heddle
