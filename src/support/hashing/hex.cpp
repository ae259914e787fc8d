#include "support/hashing/hex.h"

#include <charconv>

#include "heddle/support/error.h"
#include "support/hashing/hash.h"

namespace heddle {
namespace {

constexpr const char* kDigits = "0123456789abcdef";

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  throw_user_error(std::string("'") + c + "' is no hexadecimal digit of code");
}

}  // namespace

std::string to_hex(std::uint64_t value) {
  std::string text(16, '0');
  for (std::size_t i = 16; i-- > 0; value >>= 4) text[i] = kDigits[value & 15];
  return text;
}

bool parse_hex(std::string_view text, std::uint64_t* value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *value, 16);
  return error == std::errc() && stop == end;
}

std::string key_of_text(std::string_view text) {
  return to_hex(hash_bytes(text.data(), text.size(), 1)) +
         to_hex(hash_bytes(text.data(), text.size(), 2));
}

std::string bytes_to_hex(std::string_view bytes) {
  std::string out;
  out.reserve(2 * bytes.size());
  for (const char c : bytes) {
    const auto b = static_cast<unsigned char>(c);
    out += kDigits[b >> 4];
    out += kDigits[b & 15];
  }
  return out;
}

std::string bytes_from_hex(std::string_view text) {
  if (text.size() % 2 != 0) throw_user_error("code of half a byte");
  std::string out(text.size() / 2, '\0');
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<char>(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
  return out;
}

}  // namespace heddle
