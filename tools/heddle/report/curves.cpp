// Tuning curves: the best time against the number of trials and against seconds.
#include <algorithm>
#include <cmath>
#include <limits>

#include "common/figures.h"
#include "report/html.h"
#include "report/sections.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

constexpr double kWidth = 540, kHeight = 300;
// The most points of a curve. More points make the file slow to open.
constexpr size_t kMostPoints = 1500;

struct Span {
  double low = std::numeric_limits<double>::infinity(), high = 0;
  void take(double v) {
    low = std::min(low, v);
    high = std::max(high, v);
  }
};

Span times_of(const TaskLog& task) {
  Span span;
  for (const LogTrial& t : task.trials) {
    if (t.record->ok()) span.take(t.record->median());
  }
  return span;
}

// The axis leaves room below the best time, and above the slowest for failures.
AxisSpec time_axis(const Span& span, const Unit& unit) {
  const double decades = std::max(std::log10(span.high / span.low), 0.05);
  return {"time of one call, " + unit.name + " (logarithmic)",
          span.low / unit.scale * std::pow(10, -0.06 * decades),
          span.high / unit.scale * std::pow(10, 0.16 * decades), true};
}

std::string trial_tip(const LogTrial& t, size_t index) {
  const Record& r = *t.record;
  std::string tip = "trial " + std::to_string(index + 1) + ": ";
  if (r.ok()) return tip + format_time(r.median()) + (t.race ? " (race)" : "");
  tip += failure_text(r.error);
  if (!r.message.empty()) tip += ": " + shorten(r.message, 120);
  return tip;
}

// The position of a trial along x: its number or its time. `number` counts trials.
using Position = double (*)(double at, size_t number, double unit);

void draw_trials(Chart* chart, const TaskLog& task, const Unit& unit, Position position,
                 double x_unit, bool tips) {
  const size_t stride = (task.trials.size() + kMostPoints - 1) / kMostPoints;
  double best = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < task.trials.size(); ++i) {
    const LogTrial& t = task.trials[i];
    const Record& r = *t.record;
    const bool better = r.ok() && r.median() < best;
    if (better) best = r.median();
    if (i % stride != 0 && !better && !t.race) continue;
    const double x = chart->x(position(t.at, i + 1, x_unit));
    const std::string tip = tips ? trial_tip(t, i) : std::string();
    if (!r.ok()) {
      chart->svg().cross(x, chart->top() + 7, 3, "failed " + failure_css(r.error), tip);
    } else if (t.race) {
      chart->svg().diamond(x, chart->y(r.median() / unit.scale), 5, "race", tip);
    } else {
      chart->svg().circle(x, chart->y(r.median() / unit.scale), 2.2, "trial", tip);
    }
  }
}

void draw_best(Chart* chart, const TaskLog& task, const Unit& unit, Position position,
               double x_unit) {
  std::vector<std::pair<double, double>> steps;
  for (const CurvePoint& p : task.curve) {
    const double x = chart->x(position(p.at, p.trials, x_unit));
    if (!steps.empty()) steps.emplace_back(x, steps.back().second);
    steps.emplace_back(x, chart->y(p.seconds / unit.scale));
  }
  if (steps.empty()) return;
  steps.emplace_back(chart->right(), steps.back().second);
  chart->svg().polyline(steps, "best");
}

std::string task_chart(const TaskLog& task, const LogData& data, bool over_time) {
  const Span span = times_of(task);
  const Unit unit = time_unit(span.low);
  const Unit x_unit = over_time ? duration_unit(data.seconds) : Unit{1, ""};
  const AxisSpec x =
      over_time ? AxisSpec{"time of tuning, " + x_unit.name, 0, data.seconds / x_unit.scale}
                : AxisSpec{"trials of this task", 0, static_cast<double>(task.trials.size())};
  const Position position = over_time
                                ? [](double at, size_t, double u) { return at / u; }
                                : [](double, size_t n, double) { return static_cast<double>(n); };
  Chart chart(x, time_axis(span, unit), kWidth, kHeight,
              task.name + (over_time ? ": best so far over time" : ": best so far over trials"));
  if (over_time) {
    for (const double at : data.resumed) {
      chart.svg().line(chart.x(at / x_unit.scale), chart.top(), chart.x(at / x_unit.scale),
                       chart.bottom(), "resumed");
    }
  }
  draw_trials(&chart, task, unit, position, x_unit.scale, !over_time);
  if (task.first != nullptr) {
    const double y = chart.y(task.static_seconds() / unit.scale);
    chart.svg().line(chart.left(), y, chart.right(), y, "static");
  }
  draw_best(&chart, task, unit, position, x_unit.scale);
  return "<figure>" + chart.finish() + "</figure>\n";
}

std::string heading(const TaskLog& task, size_t number) {
  std::string out = std::to_string(number) + ". " + task.name + ": ";
  if (task.best == nullptr) return out + "no trial succeeded";
  out += format_time(task.static_seconds()) + " to " + format_time(task.best_seconds()) + ", " +
         ratio(task.speedup());
  if (task.screened()) out += " (screened, not raced)";
  return out;
}

std::vector<Key> legend_of(const LogData& data) {
  std::vector<Key> keys = {
      {Key::Mark::Line, "best", "best so far in screening, then what the race says of it"},
      {Key::Mark::Line, "static", "static schedule"},
      {Key::Mark::Dot, "trial", "a trial"}};
  bool races = false;
  std::vector<bool> seen(16, false);
  for (const TaskLog& task : data.tasks) {
    for (const LogTrial& t : task.trials) {
      races = races || (t.race && t.record->ok());
      if (!t.record->ok()) seen[static_cast<size_t>(t.record->error)] = true;
    }
  }
  if (races) keys.push_back({Key::Mark::Diamond, "race", "timed again, in a race"});
  for (const MeasureError kind : failure_kinds()) {
    if (!seen[static_cast<size_t>(kind)]) continue;
    keys.push_back({Key::Mark::Cross, "failed " + failure_css(kind), failure_text(kind)});
  }
  return keys;
}

}  // namespace

std::string curves_section(const LogData& data) {
  if (data.tasks.empty()) return "";
  std::string body = html_legend(legend_of(data));
  bool thinned = false;
  for (size_t i = 0; i < data.tasks.size(); ++i) {
    const TaskLog& task = data.tasks[i];
    body += "<h3>" + escape_xml(heading(task, i + 1)) + "</h3>\n";
    if (task.best == nullptr) continue;
    if (task.trials.size() < 3) {
      body += html_note("Not drawn: there are hardly any trials.");
      continue;
    }
    thinned = thinned || task.trials.size() > kMostPoints;
    body += "<div class=\"pair\">\n" + task_chart(task, data, false) +
            task_chart(task, data, true) + "</div>\n";
  }
  if (!data.resumed.empty()) {
    body += html_note("Dotted lines: a break between two sessions was left out here.");
  }
  if (thinned) {
    body += html_note("Of very many trials every so manieth is drawn, and every new best.");
  }
  return html_section("Tuning curves", body);
}

}  // namespace heddle::cli
