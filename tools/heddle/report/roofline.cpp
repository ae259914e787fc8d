// The roofline chart: speed against arithmetic intensity, below the machine's ceilings (Williams et
// al. 2009).
#include <algorithm>
#include <cmath>
#include <limits>

#include "common/figures.h"
#include "report/html.h"
#include "report/sections.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

constexpr double kWidth = 900, kHeight = 420;

struct Box {
  double x0, y0, x1, y1;
  bool meets(const Box& o) const { return x0 < o.x1 && o.x0 < x1 && y0 < o.y1 && o.y0 < y1; }
};

// Places labels where nothing is drawn yet: beside the point, above, below, then further away.
class Labels {
 public:
  explicit Labels(Chart* chart) : chart_(chart) {}
  void occupy(double x, double y, double r) { taken_.push_back({x - r, y - r, x + r, y + r}); }
  void put(double x, double y, const std::string& text, const char* css) {
    const double w = text_width(text), h = 13;
    for (const double far : {9.0, 20.0, 32.0, 46.0}) {
      for (const auto& [dx, dy] : {std::pair{1.0, 0.0},
                                   {-1.0, 0.0},
                                   {0.0, -1.0},
                                   {0.0, 1.0},
                                   {0.8, -0.8},
                                   {0.8, 0.8},
                                   {-0.8, -0.8},
                                   {-0.8, 0.8}}) {
        const double cx = x + dx * (far + w / 2), cy = y + dy * (far + h / 2 - 4);
        const Box box{cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2};
        if (box.x0 < chart_->left() || box.x1 > chart_->right() || box.y0 < chart_->top() ||
            box.y1 > chart_->bottom()) {
          continue;
        }
        if (std::any_of(taken_.begin(), taken_.end(), [&](const Box& b) { return b.meets(box); })) {
          continue;
        }
        taken_.push_back(box);
        if (far > 9) chart_->svg().line(x, y, cx, cy, "leader");
        chart_->svg().text(cx, cy + 4, text, css, Anchor::Middle);
        return;
      }
    }
    chart_->svg().text(x + 8, y + 4, text, css);
  }

 private:
  Chart* chart_;
  std::vector<Box> taken_;
};

// The legend explains the lines. The label of a roof is its number of threads.
std::string roof_name(const Roof& roof) {
  return roof.threads == 0 ? "ceiling" : count_text(roof.threads, "thread");
}

// Draws the slope of the memory bandwidth up to the ridge, then a level line.
void draw_roof(Chart* chart, const Roof& roof, double low, double high) {
  const double ridge = roof.gflops / roof.gb_per_second;
  std::vector<std::pair<double, double>> points;
  points.emplace_back(chart->x(low), chart->y(low * roof.gb_per_second));
  if (ridge > low && ridge < high) points.emplace_back(chart->x(ridge), chart->y(roof.gflops));
  points.emplace_back(chart->x(high), chart->y(std::min(roof.gflops, high * roof.gb_per_second)));
  chart->svg().polyline(points, "roof");
}

// Labels the roofs from above to below, each as near to its line as the one above it allows.
void name_roofs(Chart* chart, std::vector<Roof> roofs) {
  std::sort(roofs.begin(), roofs.end(),
            [](const Roof& a, const Roof& b) { return a.gflops > b.gflops; });
  double free_from = 0;
  for (const Roof& roof : roofs) {
    const double y = std::max(chart->y(roof.gflops) + 4, free_from);
    chart->svg().text(chart->right() + 6, y, roof_name(roof), "tick");
    free_from = y + 14;
  }
}

struct Point {
  size_t number;  // its number in the table of results
  double intensity, best, first;
};

// The tasks that can be drawn, and the ranges of the axes.
struct Points {
  std::vector<Point> points;
  std::string unknown;        // names of the others, whose bytes are not in the log
  double low = 1, high = 16;  // FLOP per byte
  double floor = std::numeric_limits<double>::infinity(), ceiling = 0;  // GFLOP/s
};

Points points_of(const LogData& data) {
  Points p;
  for (size_t i = 0; i < data.tasks.size(); ++i) {
    const TaskLog& t = data.tasks[i];
    if (t.best == nullptr) continue;
    if (t.bytes <= 0 || t.flops() <= 0) {
      p.unknown += (p.unknown.empty() ? "" : ", ") + t.name;
      continue;
    }
    const Point point{i + 1, t.flops() / t.bytes, t.flops() / t.best_seconds() * 1e-9,
                      t.flops() / t.static_seconds() * 1e-9};
    p.points.push_back(point);
    p.low = std::min(p.low, point.intensity);
    p.high = std::max(p.high, point.intensity);
    p.floor = std::min(p.floor, point.first);
    p.ceiling = std::max({p.ceiling, point.best, point.first});
  }
  return p;
}

// A chart whose axes contain the points and the ridges of the roofs.
Chart empty_chart(const Points& p, const std::vector<Roof>& roofs) {
  double low = p.low / 2, high = p.high * 2, ceiling = p.ceiling;
  for (const Roof& roof : roofs) {
    ceiling = std::max(ceiling, roof.gflops);
    low = std::min(low, roof.gflops / roof.gb_per_second / 4);
    high = std::max(high, roof.gflops / roof.gb_per_second * 4);
  }
  Chart chart({"arithmetic intensity, FLOP per byte that must move (logarithmic)", low, high, true},
              {"GFLOP/s (logarithmic)", std::min(p.floor, ceiling / 4) / 2, ceiling * 1.6, true},
              kWidth, kHeight, "roofline", roofs.empty() ? 14 : 80);
  for (const Roof& roof : roofs) draw_roof(&chart, roof, low, high);
  name_roofs(&chart, roofs);
  return chart;
}

// Draws an arrow from the static schedule's speed to the best one's, with the task's number.
void draw_points(Chart* chart, const std::vector<Point>& points, const LogData& data) {
  Labels labels(chart);
  for (const Point& p : points) {
    const double x = chart->x(p.intensity);
    const std::string tip = std::to_string(p.number) + ". " + data.tasks[p.number - 1].name + ": " +
                            figure(p.intensity) + " FLOP/byte, static " + figure(p.first) +
                            ", best " + figure(p.best) + " GFLOP/s";
    chart->svg().line(x, chart->y(p.first), x, chart->y(p.best), "gain");
    chart->svg().circle(x, chart->y(p.first), 4, "point-static", tip);
    chart->svg().circle(x, chart->y(p.best), 5, "point-best", tip);
    labels.occupy(x, chart->y(p.first), 6);
    labels.occupy(x, chart->y(p.best), 6);
  }
  for (const Point& p : points) {
    labels.put(chart->x(p.intensity), chart->y(p.best), std::to_string(p.number), "number");
  }
}

std::vector<Key> keys_of(const std::vector<Roof>& roofs) {
  std::vector<Key> keys = {{Key::Mark::Dot, "point-best", "best"},
                           {Key::Mark::Dot, "point-static", "static"}};
  for (const Roof& roof : roofs) {
    keys.push_back({Key::Mark::Line, "roof",
                    roof_name(roof) + ": " + figure(roof.gflops) + " GFLOP/s, " +
                        figure(roof.gb_per_second) + " GB/s"});
  }
  return keys;
}

}  // namespace

std::string roofline_section(const LogData& data, const std::vector<Roof>& roofs) {
  const Points p = points_of(data);
  if (p.points.empty()) {
    if (p.unknown.empty()) return "";
    return html_section("Roofline", html_note("Not drawn: how many bytes " + p.unknown +
                                              " must move is not in the log."));
  }
  Chart chart = empty_chart(p, roofs);
  draw_points(&chart, p.points, data);
  std::string note =
      "Numbers are those of the table of results. Bytes are counted as if each input "
      "were read once and each output written once; what stays in caches may lie "
      "above the slope of the memory.";
  if (roofs.empty()) {
    note +=
        " The machine's ceilings are not in the log: `heddle report --ceilings` measures them "
        "here, --peak and --bandwidth tell them.";
  }
  if (!p.unknown.empty()) note += " Not drawn, since their bytes are not known: " + p.unknown + ".";
  return html_section("Roofline", html_legend(keys_of(roofs)) + "<figure>" + chart.finish() +
                                      "</figure>\n" + html_note(note));
}

}  // namespace heddle::cli
