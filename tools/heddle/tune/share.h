// A share of the time as text.
#pragma once

#include <string>

namespace heddle::cli {

/// The share of "5%" or "2.5%": 0.05, 0.025. Throws a User error for other texts and for values that are not above 0 %
/// and below 100 %.
double parse_share(const std::string& text);

}  // namespace heddle::cli
