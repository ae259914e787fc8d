#include "support/table.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "heddle/support/error.h"

namespace heddle {
namespace {

// The width counts code points and not bytes: "µs" is two columns wide.
std::size_t display_width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

}  // namespace

Table::Table(std::vector<std::string> header)
    : header_(std::move(header)), left_(header_.size(), false) {
  if (!left_.empty()) left_[0] = true;
}

void Table::add_row(std::vector<std::string> cells) {
  HEDDLE_ICHECK(cells.size() <= header_.size(), "a table row has more cells than the header");
  cells.resize(header_.size());
  rows_.push_back(std::move(cells));
}

void Table::add_rule() { rows_.emplace_back(); }

std::string Table::to_string() const {
  std::vector<std::size_t> width(header_.size());
  for (std::size_t c = 0; c < header_.size(); ++c) {
    width[c] = display_width(header_[c]);
    for (const auto& row : rows_) {
      if (!row.empty()) width[c] = std::max(width[c], display_width(row[c]));
    }
  }
  std::string text;
  auto put = [&](const std::vector<std::string>& row) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string pad(width[c] - display_width(row[c]), ' ');
      if (c > 0) line += "  ";
      line += left_[c] ? row[c] + pad : pad + row[c];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  };
  std::size_t total = header_.empty() ? 0 : 2 * (header_.size() - 1);
  for (std::size_t w : width) total += w;
  const std::string rule = std::string(total, '-') + '\n';
  put(header_);
  text += rule;
  for (const auto& row : rows_) {
    if (row.empty()) {
      text += rule;
    } else {
      put(row);
    }
  }
  return text;
}

std::string format_fixed(double value, int digits) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*f", digits, value);
  return buffer;
}

std::string format_time(double seconds) {
  struct Unit {
    double scale;
    const char* name;
  };
  for (const Unit& unit : {Unit{1.0, " s"}, Unit{1e-3, " ms"}, Unit{1e-6, " us"}}) {
    const double value = seconds / unit.scale;
    if (value >= 1.0) return format_fixed(value, value < 10 ? 2 : value < 100 ? 1 : 0) + unit.name;
  }
  return format_fixed(seconds * 1e9, 0) + " ns";
}

}  // namespace heddle
