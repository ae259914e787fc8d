// Elements of the report's page.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "heddle/records/record.h"
#include "report/plot.h"

namespace heddle::cli {

/// A unit for numbers about as large as `value`.
struct Unit {
  double scale = 1;  ///< in the base unit: 1e-3 for ms
  std::string name;
};
Unit time_unit(double seconds);
/// The same for the time of tuning: s, min or h.
Unit duration_unit(double seconds);

/// `cells` are text, escaped here; columns from `first_number` on are aligned right.
std::string html_table(const std::vector<std::string>& header,
                       const std::vector<std::vector<std::string>>& rows, size_t first_number);
std::string html_section(std::string_view title, std::string_view body);
std::string html_note(std::string_view text);

/// The explanation of a mark in a chart.
struct Key {
  enum class Mark : uint8_t { Dot, Cross, Diamond, Line, Block } mark = Mark::Dot;
  std::string css, text;
};
std::string html_legend(const std::vector<Key>& keys);

/// The kinds of failure, with the class of each in the style sheet and its name in the report.
const std::vector<MeasureError>& failure_kinds();
std::string failure_css(MeasureError kind);
std::string failure_text(MeasureError kind);

/// Horizontal bars: a label, and lanes of segments beside each other.
struct BarSegment {
  double value = 0;
  std::string css, tip;
};
struct BarLane {
  std::vector<BarSegment> segments;
  std::string end;  ///< written after the bar
};
struct BarRow {
  std::string label;
  std::vector<BarLane> lanes;
};
std::string bar_chart(const std::vector<BarRow>& rows, std::string_view axis,
                      std::string_view title);

}  // namespace heddle::cli
