#include "common/figures.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "support/table.h"

namespace heddle::cli {

std::string figure(double value) {
  if (value <= 0) return "0";
  return format_fixed(value, std::clamp(2 - static_cast<int>(std::floor(std::log10(value))), 0, 6));
}

std::string percent(double share) { return format_fixed(100 * share, share < 0.1 ? 1 : 0) + "%"; }

std::string ratio(double value) {
  return format_fixed(value, value < 0.1 ? 3 : value < 10 ? 2 : 0) + "x";
}

std::string bytes_text(int64_t bytes) {
  const double mb = static_cast<double>(bytes) * 1e-6;
  return mb >= 1 ? figure(mb) + " MB" : figure(mb * 1e3) + " kB";
}

std::string flops_text(double flops) {
  return flops >= 1e9 ? figure(flops * 1e-9) + " GFLOP" : figure(flops * 1e-6) + " MFLOP";
}

std::string count_text(int64_t n, const std::string& thing) {
  std::string digits = std::to_string(n);
  for (size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits + " " + thing + (n == 1 ? "" : "s");
}

std::string clock_text(double seconds) {
  const auto whole = static_cast<long long>(std::llround(std::max(0.0, seconds)));
  if (whole < 60) return std::to_string(whole) + " s";
  char text[64];
  if (whole < 3600) {
    std::snprintf(text, sizeof text, "%lld:%02lld", whole / 60, whole % 60);
  } else {
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60,
                  whole % 60);
  }
  return text;
}

std::string shorten(const std::string& name, size_t width) {
  if (name.size() <= width) return name;
  if (width < 4) return name.substr(0, width);
  const size_t kept = width - 2, tail = kept / 3;  // subjects differ mostly at the front
  return name.substr(0, kept - tail) + ".." + name.substr(name.size() - tail);
}

std::string date_text(int64_t unix_time) {
  if (unix_time == 0) return "";
  const auto seconds = static_cast<std::time_t>(unix_time);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts);
  return text;
}

}  // namespace heddle::cli
