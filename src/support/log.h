// Logging for developers of Heddle. Nothing is printed unless the environment variable is set.
//
//   HEDDLE_LOG=lower:2,search:1   levels by component (usually the folder's name)
//   HEDDLE_LOG=1                  one level for all
//
//   HEDDLE_LOG_AT("lower", 2, "after vectorize:\n" + to_string(stmt));
//
// Level 1 prints one line for each event, level 2 one for each step, level 3 everything. The text
// is evaluated only when it is printed. Lines go to stderr, each in one write; all functions are
// thread-safe.
#pragma once

#include <string_view>

namespace heddle {

/// Whether this component is logged at this level.
bool log_enabled(std::string_view component, int level);

/// Prints "[component] text" if the component is logged at this level.
void log_line(std::string_view component, int level, std::string_view text);

namespace internal {
/// The level that a HEDDLE_LOG text gives a component.
int parse_log_level(std::string_view spec, std::string_view component);
}  // namespace internal

}  // namespace heddle

#define HEDDLE_LOG_AT(component, level, text)                                                \
  do {                                                                                       \
    if (::heddle::log_enabled(component, level)) ::heddle::log_line(component, level, text); \
  } while (false)
