#include "tune/budget.h"

#include <charconv>
#include <cmath>

#include "heddle/support/error.h"

namespace heddle::cli {
namespace {

constexpr double kLongest = 30 * 24 * 3600.0;

double seconds_of_unit(char unit) {
  switch (unit) {
    case 's': return 1;
    case 'm': return 60;
    case 'h': return 3600;
    default: return 0;
  }
}

}  // namespace

double parse_budget(const std::string& text) {
  auto refuse = [&](const std::string& why) {
    throw_user_error("'" + text + "' is no time: " + why, {},
                     "write seconds (90 or 90s), minutes (2m) or hours (1h30m)");
  };
  double total = 0, previous = INFINITY;
  const char* at = text.data();
  const char* const end = at + text.size();
  if (at == end) refuse("it is empty");
  while (at != end) {
    double number = 0;
    const auto [after, error] = std::from_chars(at, end, number, std::chars_format::fixed);
    if (error != std::errc() || !std::isfinite(number)) refuse("a number is wrong");
    // A number without a unit is seconds. Units must come from the largest to the smallest.
    double unit = 1;
    at = after;
    if (at != end) unit = seconds_of_unit(*at++);
    if (unit == 0) refuse("its units are h, m and s");
    if (unit >= previous) refuse("a number is wrong");
    previous = unit;
    total += number * unit;
  }
  if (!(total > 0)) refuse("it must be longer than nothing");
  if (total > kLongest) refuse("30 days are the most");
  return total;
}

}  // namespace heddle::cli
