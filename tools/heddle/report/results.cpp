// The table of results and, for several tasks, their shares and the overall time.
#include <algorithm>
#include <limits>

#include "common/figures.h"
#include "report/html.h"
#include "report/sections.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

std::string calls_text(double calls) {
  return format_fixed(calls, calls == std::int64_t(calls) ? 0 : 1);
}

// The number of trials as tuning counts them: times of a race are not further trials.
std::ptrdiff_t screened_trials(const TaskLog& task) {
  return std::count_if(task.trials.begin(), task.trials.end(),
                       [](const LogTrial& t) { return !t.race; });
}

// The sum of calls times best time so far, from the moment at which every task has a time.
std::string overall_chart(const LogData& data) {
  struct Event {
    double at;
    size_t task;
    double seconds;
  };
  std::vector<Event> events;
  for (size_t i = 0; i < data.tasks.size(); ++i) {
    for (const CurvePoint& p : data.tasks[i].curve) events.push_back({p.at, i, p.seconds});
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const Event& a, const Event& b) { return a.at < b.at; });
  std::vector<double> best(data.tasks.size(), 0);
  size_t missing = best.size();
  std::vector<std::pair<double, double>> steps;  // seconds of tuning, overall seconds
  for (const Event& e : events) {
    if (best[e.task] == 0) --missing;
    best[e.task] = e.seconds;
    if (missing > 0) continue;
    double sum = 0;
    for (size_t i = 0; i < best.size(); ++i) sum += data.tasks[i].calls * best[i];
    steps.emplace_back(e.at, sum);
  }
  if (steps.empty()) return "";

  double most = data.static_total;
  for (const auto& [at, seconds] : steps) most = std::max(most, seconds);
  const Unit unit = time_unit(most), x_unit = duration_unit(data.seconds);
  Chart chart({"time of tuning, " + x_unit.name, 0, data.seconds / x_unit.scale},
              {"overall latency, " + unit.name, 0, 1.08 * most / unit.scale}, 900, 280,
              "overall latency over time");
  if (data.static_total > 0) {
    const double y = chart.y(data.static_total / unit.scale);
    chart.svg().line(chart.left(), y, chart.right(), y, "static");
  }
  std::vector<std::pair<double, double>> points;
  for (const auto& [at, seconds] : steps) {
    const double x = chart.x(at / x_unit.scale), y = chart.y(seconds / unit.scale);
    if (!points.empty()) points.emplace_back(x, points.back().second);
    points.emplace_back(x, y);
  }
  points.emplace_back(chart.right(), points.back().second);
  chart.svg().polyline(points, "best");
  return html_legend(
             {{Key::Mark::Line, "best", "best so far in screening, then by races, all tasks"},
              {Key::Mark::Line, "static", "static schedules"}}) +
         "<figure>" + chart.finish() + "</figure>\n";
}

std::string share_chart(const LogData& data) {
  std::vector<size_t> order(data.tasks.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  auto total = [&](size_t i) { return data.tasks[i].calls * data.tasks[i].best_seconds(); };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return total(a) > total(b); });
  double most = 0;
  for (const TaskLog& t : data.tasks) most = std::max(most, t.calls * t.static_seconds());
  const Unit unit = time_unit(most);
  std::vector<BarRow> rows;
  for (const size_t i : order) {
    const TaskLog& t = data.tasks[i];
    const double first = t.calls * t.static_seconds(), best = total(i);
    const std::string label = std::to_string(i + 1) + ". " + t.name;
    auto lane = [&](double seconds, double all, const char* css, const char* which) {
      const std::string text = format_time(seconds) + ", " + percent(seconds / all);
      return BarLane{{{seconds / unit.scale, css, label + ", " + which + ": " + text}}, text};
    };
    rows.push_back({label,
                    {lane(first, data.static_total, "bar-static", "static"),
                     lane(best, data.best_total, "bar-best", "best")}});
  }
  return html_legend(
             {{Key::Mark::Block, "bar-static", "static"}, {Key::Mark::Block, "bar-best", "best"}}) +
         bar_chart(rows, "calls x time, " + unit.name, "share of each task");
}

}  // namespace

std::string tasks_section(const LogData& data) {
  if (data.tasks.empty() && !data.picks.empty()) return "";
  if (data.tasks.empty()) return html_section("Results", html_note("There are no records."));
  std::vector<std::vector<std::string>> rows;
  bool guessed = false, screened = false;
  for (size_t i = 0; i < data.tasks.size(); ++i) {
    const TaskLog& t = data.tasks[i];
    guessed = guessed || (t.first != nullptr && !t.static_known);
    screened = screened || t.screened();
    const bool ok = t.best != nullptr;
    rows.push_back(
        {std::to_string(i + 1), t.name, calls_text(t.calls), std::to_string(screened_trials(t)),
         std::to_string(t.failures),
         ok ? format_time(t.static_seconds()) + (t.static_known ? "" : " *") : "-",
         ok ? format_time(t.best_seconds()) + (t.screened() ? " +" : "") : "-",
         ok ? ratio(t.speedup()) : "-", ok ? figure(flops_per_second(*t.best) * 1e-9) : "-",
         data.best_total > 0 ? percent(t.calls * t.best_seconds() / data.best_total) : "-"});
  }
  if (data.tasks.size() > 1 && data.best_total > 0) {
    rows.push_back({"", "overall", "", "", "", format_time(data.static_total),
                    format_time(data.best_total), ratio(data.static_total / data.best_total), "",
                    ""});
  }
  std::string body = html_table(
      {"#", "task", "calls", "trials", "failed", "static", "best", "speed-up", "GFLOP/s", "share"},
      rows, 2);
  if (guessed) {
    body += html_note(
        "* Which record is the static schedule's could not be told; it is taken to be "
        "the first that ran.");
  }
  if (screened) {
    body += html_note(
        "+ Timed in screening only, once or twice: tuning ended before the race that would tell.");
  }
  return html_section("Results", body);
}

std::string network_section(const LogData& data) {
  if (data.tasks.size() < 2) return "";
  if (data.best_total == 0) {
    return html_section("All tasks together",
                        html_note("Not shown: of some task no trial succeeded."));
  }
  return html_section("All tasks together", overall_chart(data)) +
         html_section("Share of each task", share_chart(data));
}

}  // namespace heddle::cli
