#include "measure/task/hex.h"

#include "heddle/support/error.h"

namespace heddle::measuring {
namespace {

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  throw_user_error(std::string("'") + c + "' is no hexadecimal digit of code");
}

}  // namespace

std::string to_hex(const std::string& bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string out;
  out.reserve(2 * bytes.size());
  for (const char c : bytes) {
    const auto b = static_cast<unsigned char>(c);
    out += kDigits[b >> 4];
    out += kDigits[b & 15];
  }
  return out;
}

std::string from_hex(const std::string& text) {
  if (text.size() % 2 != 0) throw_user_error("code of half a byte");
  std::string out(text.size() / 2, '\0');
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<char>(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
  return out;
}

}  // namespace heddle::measuring
