#include "report/html.h"

#include <algorithm>

#include "common/figures.h"

namespace heddle::cli {

Unit time_unit(double seconds) {
  for (const Unit& unit : {Unit{1, "s"}, Unit{1e-3, "ms"}, Unit{1e-6, "us"}}) {
    if (seconds >= unit.scale) return unit;
  }
  return {1e-9, "ns"};
}

Unit duration_unit(double seconds) {
  if (seconds >= 3 * 3600) return {3600, "h"};
  if (seconds >= 5 * 60) return {60, "min"};
  return {1, "s"};
}

std::string html_table(const std::vector<std::string>& header,
                       const std::vector<std::vector<std::string>>& rows, size_t first_number) {
  auto line = [&](const std::vector<std::string>& cells, const char* tag) {
    std::string out = "<tr>";
    for (size_t c = 0; c < cells.size(); ++c) {
      out += std::string("<") + tag + (c >= first_number ? " class=\"num\">" : ">") +
             escape_xml(cells[c]) + "</" + tag + ">";
    }
    return out + "</tr>\n";
  };
  std::string out =
      "<div class=\"scroll\"><table>\n<thead>" + line(header, "th") + "</thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : rows) out += line(row, "td");
  return out + "</tbody></table></div>\n";
}

std::string html_section(std::string_view title, std::string_view body) {
  return "<section>\n<h2>" + escape_xml(title) + "</h2>\n" + std::string(body) + "</section>\n";
}

std::string html_note(std::string_view text) {
  return "<p class=\"note\">" + escape_xml(text) + "</p>\n";
}

std::string html_legend(const std::vector<Key>& keys) {
  std::string out = "<p class=\"legend\">";
  for (const Key& key : keys) {
    Svg mark(16, 12, key.text);
    switch (key.mark) {
      case Key::Mark::Dot: mark.circle(8, 6, 3.5, key.css); break;
      case Key::Mark::Cross: mark.cross(8, 6, 3.5, key.css); break;
      case Key::Mark::Diamond: mark.diamond(8, 6, 5, key.css); break;
      case Key::Mark::Line: mark.line(0, 6, 16, 6, key.css); break;
      case Key::Mark::Block: mark.rect(1, 1, 14, 10, key.css); break;
    }
    out += "<span>" + mark.finish() + escape_xml(key.text) + "</span> ";
  }
  return out + "</p>\n";
}

const std::vector<MeasureError>& failure_kinds() {
  static const std::vector<MeasureError> kinds = {
      MeasureError::Invalid, MeasureError::Compile,     MeasureError::Crash,
      MeasureError::Timeout, MeasureError::OutOfMemory, MeasureError::WrongAnswer,
      MeasureError::Rejected};
  return kinds;
}

std::string failure_css(MeasureError kind) {
  return "kind" + std::to_string(static_cast<int>(kind));
}

std::string failure_text(MeasureError kind) {
  switch (kind) {
    case MeasureError::None: return "measured";
    case MeasureError::Invalid: return "invalid config";
    case MeasureError::Compile: return "did not compile";
    case MeasureError::Crash: return "crash";
    case MeasureError::Timeout: return "timeout";
    case MeasureError::OutOfMemory: return "out of memory";
    case MeasureError::WrongAnswer: return "wrong answer";
    case MeasureError::Rejected: return "rejected";
    case MeasureError::Cancelled: return "cancelled";
  }
  return "";
}

std::string bar_chart(const std::vector<BarRow>& rows, std::string_view axis,
                      std::string_view title) {
  constexpr double kWidth = 900, kLabel = 320, kEnd = 160, kLane = 15, kGap = 9, kBelow = 48;
  constexpr size_t kLetters = 45;
  double most = 0, height = kGap;
  for (const BarRow& row : rows) {
    for (const BarLane& lane : row.lanes) {
      double sum = 0;
      for (const BarSegment& s : lane.segments) sum += s.value;
      most = std::max(most, sum);
    }
    height += kLane * static_cast<double>(row.lanes.size()) + kGap;
  }
  Svg svg(kWidth, height + kBelow, title);
  const Scale x(0, most > 0 ? most : 1, kLabel, kWidth - kEnd);
  for (const Tick& t : linear_ticks(0, x.high(), 8)) {
    svg.line(x(t.value), 0, x(t.value), height, "grid");
    svg.text(x(t.value), height + 16, t.label, "tick", Anchor::Middle);
  }
  double y = kGap;
  for (const BarRow& row : rows) {
    const double middle = y + kLane * static_cast<double>(row.lanes.size()) / 2;
    svg.text(kLabel - 8, middle + 4, shorten(row.label, kLetters), "tick", Anchor::End);
    for (const BarLane& lane : row.lanes) {
      double sum = 0;
      for (const BarSegment& s : lane.segments) {
        if (s.value > 0)
          svg.rect(x(sum), y + 1, x(sum + s.value) - x(sum), kLane - 2, s.css, s.tip);
        sum += s.value;
      }
      svg.text(x(sum) + 6, y + kLane - 4, lane.end, "tick");
      y += kLane;
    }
    y += kGap;
  }
  svg.line(kLabel, 0, kLabel, height, "axis");
  svg.text((kLabel + kWidth - kEnd) / 2, height + 38, axis, "label", Anchor::Middle);
  return "<figure>" + svg.finish() + "</figure>\n";
}

}  // namespace heddle::cli
