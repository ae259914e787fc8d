#include "measure/task/code_json.h"

#include <optional>

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

Json args_json(const std::vector<KernelArg>& args) {
  Json out = Json::array();
  for (const KernelArg& a : args) {
    out.push_back(Json::object({{"name", a.name},
                                {"dtype", to_string(a.dtype)},
                                {"shape", Json::array_of(a.shape)},
                                {"output", a.output},
                                {"constant", a.constant},
                                {"alignment", a.alignment}}));
  }
  return out;
}

std::vector<KernelArg> args_from_json(const Json& list) {
  std::vector<KernelArg> out;
  for (const Json& j : list.elements()) {
    KernelArg a;
    a.name = j.at("name").as_string();
    const std::string& type = j.at("dtype").as_string();
    const std::optional<DataType> dtype = parse_dtype(type);
    if (!dtype) throw_user_error("an argument of a kernel has no type '" + type + "'");
    a.dtype = *dtype;
    for (const Json& extent : j.at("shape").elements()) a.shape.push_back(extent.as_int());
    a.output = j.at("output").as_bool();
    a.constant = j.at("constant").as_bool();
    a.alignment = static_cast<int>(j.at("alignment").as_int());
    out.push_back(std::move(a));
  }
  return out;
}

}  // namespace heddle::measuring
