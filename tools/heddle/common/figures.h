// Figures as text, with three significant digits and a suitable unit.
#pragma once

#include <cstdint>
#include <string>

namespace heddle::cli {

/// "0.123", "12.3", "1234".
std::string figure(double value);
/// A share as text: 0.082 -> "8.2%", 0.82 -> "82%".
std::string percent(double share);
/// "1.15x"
std::string ratio(double value);
/// "1.05 MB", "64.0 kB"
std::string bytes_text(int64_t bytes);
/// "2.15 GFLOP", "33.6 MFLOP"
std::string flops_text(double flops);
/// A whole number of things: "1 trial", "1,234 trials".
std::string count_text(int64_t n, const std::string& thing);
/// Seconds as a clock shows them: "9 s", "1:05", "1:00:00".
std::string clock_text(double seconds);
/// `name` in at most `width` columns; ".." replaces the part that was removed from its middle.
std::string shorten(const std::string& name, size_t width);

/// The day and minute of `unix_time` (seconds, UTC); empty for 0, which is no time.
std::string date_text(int64_t unix_time);

}  // namespace heddle::cli
