// Table: text in aligned columns, for reports.
//
//   Table t({"task", "time"});
//   t.add_row({"conv1", "41.2 us"});
//   out << t.to_string();
//
// The first column is aligned left and the others right, unless align_left says otherwise.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace heddle {

/// A table of text with aligned columns.
class Table {
 public:
  explicit Table(std::vector<std::string> header);

  /// A row with fewer cells than the header is filled with empty ones. More cells than the header
  /// is an error.
  void add_row(std::vector<std::string> cells);
  /// A horizontal line between the rows before and after.
  void add_rule();
  void align_left(std::size_t column) { left_[column] = true; }

  std::string to_string() const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;  // an empty row is a rule
  std::vector<bool> left_;
};

/// A number with this many digits after the point: "1.234".
std::string format_fixed(double value, int digits);
/// A time in the unit that fits: "850 ns", "41.2 us", "3.10 ms", "2.50 s".
std::string format_time(double seconds);

}  // namespace heddle
