// The picks of multi-kernels: a table, and the times of the variants of each pick.
#include <algorithm>

#include "common/figures.h"
#include "heddle/support/error.h"
#include "report/html.h"
#include "report/sections.h"
#include "support/files/file.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

constexpr size_t kMostCharts = 60;
// Bars end here. With the whole length of a naive variant the others could not be told apart.
constexpr double kLongestBar = 6;

std::string times_text(double times) { return times > 0 ? ratio(times) : "-"; }

std::string title_of(const PickRow& row) { return row.kernel + " " + row.shapes; }

std::string table(const std::vector<PickRow>& picks) {
  std::vector<std::vector<std::string>> rows;
  for (const PickRow& row : picks) {
    rows.push_back({row.kernel, row.shapes, row.picked, to_string(row.reason), row.note,
                    std::to_string(row.variants.size()), times_text(row.speedup_over_static()),
                    times_text(row.speedup_over_worst())});
  }
  return html_table(
      {"kernel", "shapes", "picked", "reason", "note", "variants", "over static", "over worst"},
      rows, 5);
}

/// A group of bars for each pick with times: one bar for each variant, relative to the pick.
std::string chart(const std::vector<PickRow>& picks) {
  std::vector<BarRow> rows;
  size_t left_out = 0;
  for (const PickRow& row : picks) {
    double picked = 0;
    for (const VariantTimes& v : row.variants) {
      if (v.name == row.picked && !v.seconds.empty()) picked = v.median();
    }
    if (picked <= 0) continue;
    if (rows.size() >= kMostCharts) {
      ++left_out;
      continue;
    }
    BarRow bars{title_of(row), {}};
    for (const VariantTimes& v : row.variants) {
      if (v.seconds.empty() || !v.dropped.empty()) continue;
      const double times = v.median() / picked;
      const std::string text = v.name + ", " + format_time(v.median()) +
                               (v.name == row.picked ? "" : ", " + ratio(times));
      bars.lanes.push_back(
          {{{std::min(times, kLongestBar), v.name == row.picked ? "bar-best" : "bar-static",
             title_of(row) + ", " + text}},
           text});
    }
    rows.push_back(std::move(bars));
  }
  if (rows.empty()) return "";
  std::string body =
      html_legend({{Key::Mark::Block, "bar-best", "the pick"},
                   {Key::Mark::Block, "bar-static", "other variants"}}) +
      bar_chart(rows, "time, as a multiple of the pick's (bars end at 6)", "times of variants");
  if (left_out > 0)
    body += html_note(std::to_string(left_out) + " more picks are in the table only.");
  return body;
}

}  // namespace

std::vector<PickRow> read_picks(const std::string& path, std::vector<std::string>& problems) {
  std::vector<PickRow> rows;
  const std::string content = read_file(path);
  int number = 0;
  for (size_t begin = 0; begin < content.size();) {
    const size_t end = std::min(content.find('\n', begin), content.size());
    const std::string line = content.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.empty()) continue;
    try {
      rows.push_back(PickRow::from_json(Json::parse(line)));
    } catch (const Error& e) {
      problems.push_back(path + ":" + std::to_string(number) + ": " + e.message);
    }
  }
  return rows;
}

std::string picks_section(const LogData& data) {
  if (data.picks.empty()) return "";
  return html_section("Picks of multi-kernels", table(data.picks) + chart(data.picks));
}

}  // namespace heddle::cli
