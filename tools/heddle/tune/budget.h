// A time budget as text.
#pragma once

#include <string>

namespace heddle::cli {

/// The seconds of "90", "90s", "1.5m", "1h" or "1h30m". Throws a User error for other texts and for
/// values that are not above zero.
double parse_budget(const std::string& text);

}  // namespace heddle::cli
