// A time budget as text.
#pragma once

#include <string>

namespace heddle::cli {

/// Seconds of "90", "90s", "1.5m", "1h" or "1h30m". What is none, or not above zero, is a User
/// error.
double parse_budget(const std::string& text);

}  // namespace heddle::cli
