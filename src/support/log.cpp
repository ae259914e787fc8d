#include "support/log.h"

#include <unistd.h>

#include <charconv>
#include <string>

#include "support/environment.h"

namespace heddle {
namespace internal {

int parse_log_level(std::string_view spec, std::string_view component) {
  int level = 0;
  while (!spec.empty()) {
    const std::size_t comma = spec.find(',');
    const std::string_view item = spec.substr(0, comma);
    spec = comma == std::string_view::npos ? std::string_view() : spec.substr(comma + 1);
    const std::size_t colon = item.find(':');
    const bool for_all = colon == std::string_view::npos;
    if (!for_all && item.substr(0, colon) != component) continue;
    const std::string_view digits = for_all ? item : item.substr(colon + 1);
    int value = 0;
    // A name without a level, such as "lower", means its first level.
    if (for_all && item == component) value = 1;
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (value > level) level = value;
  }
  return level;
}

}  // namespace internal

bool log_enabled(std::string_view component, int level) {
  static const std::string spec = internal::environment_value("HEDDLE_LOG");
  return !spec.empty() && internal::parse_log_level(spec, component) >= level;
}

void log_line(std::string_view component, int level, std::string_view text) {
  if (!log_enabled(component, level)) return;
  std::string line = "[" + std::string(component) + "] " + std::string(text);
  if (line.back() != '\n') line += '\n';
  // The line is written by one call, so that lines of several threads and processes do not mix. A
  // failed write of a log is ignored.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace heddle
