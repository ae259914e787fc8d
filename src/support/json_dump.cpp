// Json as text. It is apart from reading because libraries that export_network writes read only, and
// the tables that print doubles are larger than all of their runtime.
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>

#include "heddle/support/json.h"

namespace heddle {
namespace {

// The length of the UTF-8 sequence that `text` begins with. 0 where it begins with none: a stray or
// missing continuation, an overlong form, a surrogate, or a value beyond U+10FFFF.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first < 0xc2   ? 0
                             : first < 0xe0 ? 2
                             : first < 0xf0 ? 3
                             : first < 0xf5 ? 4
                                            : 0;
  if (length == 0 || text.size() < length) return 0;
  const unsigned char least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned char most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < least || byte(1) > most) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  return length;
}

// JSON must be UTF-8, so a byte that is not part of a sequence becomes U+FFFD.
void dump_string(std::string_view text, std::string& out) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\t': out += "\\t"; break;
      case '\r': out += "\\r"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += "\\u00";
          out += kHex[c >> 4];
          out += kHex[c & 15];
        } else if (const std::size_t length = utf8_length(text.substr(i)); length > 0) {
          out += text.substr(i, length);
          i += length - 1;
        } else {
          out += "\xef\xbf\xbd";
        }
    }
  }
  out += '"';
}

void dump_double(double value, std::string& out) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  const std::string_view digits(buffer, static_cast<std::size_t>(result.ptr - buffer));
  out += digits;
  // Without a point, "3" would be read as an integer.
  if (digits.find_first_of(".e") == std::string_view::npos) out += ".0";
}

void newline(std::string& out, int indent, int depth) {
  if (indent < 0) return;
  out += '\n';
  out.append(static_cast<std::size_t>(indent * depth), ' ');
}

void dump_value(const Json& value, int indent, int depth, std::string& out) {
  const std::size_t size = value.is_array() || value.is_object() ? value.size() : 0;
  switch (value.kind()) {
    case Json::Kind::Null: out += "null"; return;
    case Json::Kind::Bool: out += value.as_bool() ? "true" : "false"; return;
    case Json::Kind::Int: out += std::to_string(value.as_int()); return;
    case Json::Kind::Double: dump_double(value.as_double(), out); return;
    case Json::Kind::String: dump_string(value.as_string(), out); return;
    case Json::Kind::Array:
      out += '[';
      for (std::size_t i = 0; i < size; ++i) {
        if (i > 0) out += ',';
        newline(out, indent, depth + 1);
        dump_value(value.elements()[i], indent, depth + 1, out);
      }
      if (size > 0) newline(out, indent, depth);
      out += ']';
      return;
    case Json::Kind::Object:
      out += '{';
      for (std::size_t i = 0; i < size; ++i) {
        if (i > 0) out += ',';
        newline(out, indent, depth + 1);
        dump_string(value.members()[i].first, out);
        out += indent < 0 ? ":" : ": ";
        dump_value(value.members()[i].second, indent, depth + 1, out);
      }
      if (size > 0) newline(out, indent, depth);
      out += '}';
      return;
  }
}

}  // namespace

std::string Json::dump(int indent) const {
  std::string out;
  dump_value(*this, indent, 0, out);
  return out;
}

}  // namespace heddle
