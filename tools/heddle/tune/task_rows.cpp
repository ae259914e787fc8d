#include "tune/task_rows.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "common/figures.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

TaskScale scale_of(std::span<const TaskScale> scales, size_t i) {
  return i < scales.size() ? scales[i] : TaskScale{};
}

std::string time_cell(double seconds) { return seconds > 0 ? format_time(seconds) : "-"; }

// A time that the race may still change is marked as an estimate.
std::string mark_of(const TaskRow& row) { return row.screened ? "~" : ""; }

const char* rate_unit(const TaskRow& row) {
  return row.scale.bound == Bound::Compute ? "GFLOP/s" : "GB/s";
}

struct Column {
  std::string title;
  int keep;  ///< columns with the smallest value are dropped first
  std::function<std::string(const TaskRow&)> cell;
};

std::vector<Column> columns_for(std::span<const TaskRow> rows) {
  const bool one_unit = std::all_of(rows.begin(), rows.end(), [&](const TaskRow& row) {
    return (row.scale.bound == Bound::Compute) == (rows[0].scale.bound == Bound::Compute);
  });
  const bool calls =
      std::any_of(rows.begin(), rows.end(), [](const TaskRow& row) { return row.calls != 1; });
  const bool peaks =
      std::any_of(rows.begin(), rows.end(), [](const TaskRow& row) { return row.scale.peak > 0; });
  double total = 0;
  for (const TaskRow& row : rows) total += row.total_seconds();

  std::vector<Column> columns;
  auto add = [&](std::string title, int keep, std::function<std::string(const TaskRow&)> cell) {
    columns.push_back({std::move(title), keep, std::move(cell)});
  };
  if (calls) add("calls", 1, [](const TaskRow& r) { return format_fixed(r.calls, 0); });
  add("trials", 5, [](const TaskRow& r) { return std::to_string(r.trials); });
  add("failed", 2, [](const TaskRow& r) { return std::to_string(r.failures); });
  add("static", 6, [](const TaskRow& r) { return time_cell(r.static_seconds); });
  add("best", 9, [](const TaskRow& r) {
    return r.best_seconds > 0 ? mark_of(r) + format_time(r.best_seconds) : "-";
  });
  add("speed-up", 8,
      [](const TaskRow& r) { return r.speedup() > 0 ? mark_of(r) + ratio(r.speedup()) : "-"; });
  add(rows.empty() ? ""
      : one_unit   ? rate_unit(rows[0])
                   : "rate",
      4, [one_unit](const TaskRow& r) {
        if (r.rate() <= 0) return std::string("-");
        const std::string value = figure(r.rate() * 1e-9);
        return one_unit ? value : value + " " + rate_unit(r);
      });
  if (peaks) {
    add("of peak", 3, [](const TaskRow& r) {
      // The share exceeds 100 % where the machine was busy when its peak was measured.
      if (r.peak_share() > 1) return std::string(">100%");
      return r.peak_share() > 0 ? percent(r.peak_share()) : "-";
    });
  }
  if (std::any_of(rows.begin(), rows.end(), [](const TaskRow& row) { return row.near > 0; }))
    add("sure", 0, [](const TaskRow& r) { return r.near > 0 ? format_fixed(r.near, 2) : "-"; });
  if (rows.size() > 1) {
    add("share", 7, [total](const TaskRow& r) {
      return r.best_seconds > 0 ? percent(r.total_seconds() / total) : "-";
    });
  }
  return columns;
}

// The rows to show first: the active task, then the tasks that take longest. A task without a
// measurement may take any time, so it counts as the longest.
std::vector<size_t> most_important(std::span<const TaskRow> rows, size_t count) {
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (rows[a].active != rows[b].active) return rows[a].active;
    return rows[a].total_seconds() > rows[b].total_seconds();
  });
  order.resize(std::min(count, order.size()));
  std::sort(order.begin(), order.end());
  return order;
}

size_t total_width(const std::vector<size_t>& widths, size_t name) {
  size_t total = name;
  for (const size_t w : widths) total += 2 + w;
  return total;
}

std::string padded_left(const std::string& text, size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

}  // namespace

double TaskRow::speedup() const {
  return static_seconds > 0 && best_seconds > 0 ? static_seconds / best_seconds : 0;
}

double TaskRow::rate() const { return best_seconds > 0 ? scale.work / best_seconds : 0; }

double TaskRow::peak_share() const { return scale.peak > 0 ? rate() / scale.peak : 0; }

std::vector<TaskRow> task_rows(const TuneProgress& progress, std::span<const TaskScale> scales) {
  std::vector<TaskRow> rows;
  for (size_t i = 0; i < progress.tasks.size(); ++i) {
    const TaskProgress& t = progress.tasks[i];
    rows.push_back({t.name, t.weight, t.trials, t.failures, t.static_seconds, t.best_seconds,
                    static_cast<int>(i) == progress.active, t.converged, scale_of(scales, i),
                    t.near, !t.settled});
  }
  return rows;
}

std::vector<TaskRow> task_rows(const TuneReport& report, std::span<const double> calls,
                               std::span<const TaskScale> scales) {
  std::vector<TaskRow> rows;
  for (size_t i = 0; i < report.tasks.size(); ++i) {
    const TaskResult& t = report.tasks[i];
    rows.push_back({t.name, i < calls.size() ? calls[i] : 1, t.trials, t.failures, t.static_seconds,
                    t.best_seconds, false, false, scale_of(scales, i), t.near});
  }
  return rows;
}

Overall overall_of(std::span<const TaskRow> rows) {
  Overall sum;
  for (const TaskRow& row : rows) {
    if (row.static_seconds <= 0 || row.best_seconds <= 0)
      return {};  // an incomplete sum is not shown
    sum.static_seconds += row.calls * row.static_seconds;
    sum.best_seconds += row.calls * row.best_seconds;
    sum.screened = sum.screened || row.screened;
  }
  return sum;
}

std::vector<std::string> table_lines(std::span<const TaskRow> rows, TableSize size) {
  const auto columns_there = static_cast<size_t>(std::max(size.columns, 1));
  // There is room for the header, at least one row, and the line that counts the others.
  size_t room = size.lines == INT_MAX ? rows.size() : static_cast<size_t>(std::max(size.lines, 3));
  const bool fits = size.lines == INT_MAX || rows.size() + 1 <= room;
  room = fits ? rows.size() : room - 2;
  const std::vector<size_t> shown = most_important(rows, room);

  std::vector<Column> columns = columns_for(rows);
  std::vector<size_t> widths;
  for (const Column& c : columns) {
    widths.push_back(c.title.size());
    for (const size_t i : shown) widths.back() = std::max(widths.back(), c.cell(rows[i]).size());
  }
  size_t name_width = 4;  // "task"
  for (const size_t i : shown) name_width = std::max(name_width, rows[i].name.size() + 2);
  // About twenty letters of a name identify a task. Columns are more useful than further letters.
  const size_t name_needed = std::min<size_t>(name_width, 22);
  while (!columns.empty() && total_width(widths, name_needed) > columns_there) {
    const auto least =
        std::min_element(columns.begin(), columns.end(),
                         [](const Column& a, const Column& b) { return a.keep < b.keep; });
    widths.erase(widths.begin() + (least - columns.begin()));
    columns.erase(least);
  }
  const size_t others = total_width(widths, 0);
  name_width = std::min(name_width, columns_there > others ? columns_there - others : 1);

  std::vector<std::string> lines;
  auto put = [&](const std::string& name, auto&& cell) {
    std::string line = shorten(name, name_width);
    line.resize(name_width, ' ');
    for (size_t c = 0; c < columns.size(); ++c) line += "  " + padded_left(cell(c), widths[c]);
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  };
  put("  task", [&](size_t c) { return columns[c].title; });
  for (const size_t i : shown) {
    const TaskRow& row = rows[i];
    // The marks need no colour: '>' is the active task, '=' one that has nothing left to try.
    const std::string mark = row.active ? "> " : row.converged ? "= " : "  ";
    put(mark + row.name, [&](size_t c) { return columns[c].cell(row); });
  }
  if (shown.size() < rows.size()) {
    lines.push_back(shorten(
        "  and " + count_text(static_cast<int64_t>(rows.size() - shown.size()), "more task"),
        columns_there));
  }
  return lines;
}

}  // namespace heddle::cli
