#include "heddle/schedule/knob.h"

#include <algorithm>
#include <charconv>

#include "heddle/support/error.h"

namespace heddle {

std::string Knob::text_of(int64_t value) const {
  const bool labelled = value >= 0 && value < static_cast<int64_t>(labels.size());
  return labelled ? labels[static_cast<size_t>(value)] : std::to_string(value);
}

Json Knob::json_of(int64_t value) const {
  const bool labelled = value >= 0 && value < static_cast<int64_t>(labels.size());
  return labelled ? Json(labels[static_cast<size_t>(value)]) : Json(value);
}

std::optional<int64_t> Knob::value_of(const Json& json) const {
  if (!is_kind() || json.is_int()) return json.as_int();
  const auto at = std::find(labels.begin(), labels.end(), json.as_string());
  if (at == labels.end()) return std::nullopt;
  return at - labels.begin();
}

std::optional<int64_t> Knob::parse(const std::string& text) const {
  const auto at = std::find(labels.begin(), labels.end(), text);
  if (at != labels.end()) return at - labels.begin();
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::string Knob::values_text(const std::string& separator) const {
  std::string out;
  for (const int64_t v : values) out += (out.empty() ? "" : separator) + text_of(v);
  return out;
}

bool Knob::is_called(const std::string& some_name) const {
  return name == some_name || std::find(aliases.begin(), aliases.end(), some_name) != aliases.end();
}

}  // namespace heddle
