#include "records/nearest_config.h"

#include <algorithm>
#include <cmath>

#include "heddle/support/error.h"

namespace heddle::records {
namespace {

double distance(int64_t a, int64_t b) {
  if (a > 0 && b > 0) return std::abs(std::log2(double(a)) - std::log2(double(b)));
  return std::abs(static_cast<double>(a) - static_cast<double>(b));
}

}  // namespace

Config nearest_config(const Template& t, const Json& config) {
  Config out = t.default_config();
  if (config.kind() != Json::Kind::Object) return out;
  for (const auto& [name, value] : config.members()) {
    int k = t.knob_index(name);
    if (k < 0) continue;
    const Knob& knob = t.knobs()[static_cast<size_t>(k)];
    const bool readable = value.is_int() || (knob.is_kind() && value.is_string());
    const std::optional<int64_t> wanted = readable ? knob.value_of(value) : std::nullopt;
    if (!wanted) continue;
    if (knob.is_kind()) {  // no kind is nearer to another
      if (std::binary_search(knob.values.begin(), knob.values.end(), *wanted))
        out.values[static_cast<size_t>(k)] = *wanted;
      continue;
    }
    out.values[static_cast<size_t>(k)] = *std::min_element(
        knob.values.begin(), knob.values.end(),
        [&](int64_t a, int64_t b) { return distance(a, *wanted) < distance(b, *wanted); });
  }
  for (size_t k = 0; k < out.values.size() && !t.why_invalid(out).empty(); ++k)
    out.values[k] = t.knobs()[k].default_value;
  return out;
}

Config nearest_config(const Template& t, const Record& r) {
  const int b = t.find_branch(r.alternative);
  return b < 0 ? t.default_config() : t.config_of_branch(b, nearest_config(t.branch(b), r.config));
}

}  // namespace heddle::records
