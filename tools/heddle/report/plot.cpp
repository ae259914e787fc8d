#include "report/plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace heddle::cli {
namespace {

constexpr double kLetter = 6.6;  // mean width at 12 px
constexpr double kLine = 14;

std::string tick_label(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

const char* anchor_name(Anchor anchor) {
  switch (anchor) {
    case Anchor::Start: return "start";
    case Anchor::Middle: return "middle";
    case Anchor::End: return "end";
  }
  return "start";
}

std::string attribute(const char* name, double value) {
  return std::string(" ") + name + "=\"" + coordinate(value) + "\"";
}

std::vector<Tick> ticks_of(const AxisSpec& axis, int most) {
  return axis.logarithmic ? log_ticks(axis.low, axis.high, most)
                          : linear_ticks(axis.low, axis.high, most);
}

double left_margin(const AxisSpec& y, int most) {
  double widest = 0;
  for (const Tick& t : ticks_of(y, most)) widest = std::max(widest, text_width(t.label));
  return widest + 8 + 2 * kLine;
}

constexpr int kTicksX = 7, kTicksY = 6;

}  // namespace

std::string escape_xml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default:
        // Control characters are not allowed in XML, not even escaped.
        out += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? '?' : c;
    }
  }
  return out;
}

std::string coordinate(double value) {
  if (!std::isfinite(value)) return "0";
  char text[64];
  std::snprintf(text, sizeof text, "%.2f", value);
  std::string out = text;
  out.erase(out.find_last_not_of('0') + 1);
  if (out.back() == '.') out.pop_back();
  return out == "-0" ? "0" : out;
}

std::vector<Tick> linear_ticks(double low, double high, int most) {
  if (!(high > low) || most < 1) return {{low, tick_label(low)}};
  double step = std::pow(10.0, std::floor(std::log10((high - low) / most)));
  // This takes at most three rounds, because 10 steps of the next power are never more than `most`.
  for (const double factor : {1.0, 2.0, 5.0, 10.0, 20.0}) {
    const double first = std::ceil(low / (step * factor) - 1e-9);
    const double last = std::floor(high / (step * factor) + 1e-9);
    if (last - first + 1 > most) continue;
    std::vector<Tick> ticks;
    for (double i = first; i <= last; ++i) {
      const double value = i == 0 ? 0 : i * step * factor;
      ticks.push_back({value, tick_label(value)});
    }
    return ticks;
  }
  return {};
}

std::vector<Tick> log_ticks(double low, double high, int most) {
  if (!(high > low) || low <= 0) return {{low, tick_label(low)}};
  const int first = static_cast<int>(std::floor(std::log10(low))) - 1;
  const int last = static_cast<int>(std::ceil(std::log10(high))) + 1;
  auto within = [&](const std::vector<double>& factors, int stride) {
    std::vector<Tick> ticks;
    for (int e = first; e <= last; ++e) {
      if (((e % stride) + stride) % stride != 0) continue;
      for (const double f : factors) {
        const double value = f * std::pow(10.0, e);
        if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9)) {
          ticks.push_back({value, tick_label(value)});
        }
      }
    }
    return ticks;
  };
  for (const std::vector<double>& factors :
       {std::vector<double>{1, 1.5, 2, 3, 4, 5, 6, 8}, {1, 2, 3, 5}, {1, 2, 5}, {1, 3}, {1}}) {
    std::vector<Tick> ticks = within(factors, 1);
    if (static_cast<int>(ticks.size()) > most) continue;
    // Within less than a decade linear ticks are more useful.
    if (ticks.size() < 3 && high < 10 * low) return linear_ticks(low, high, most);
    return ticks;
  }
  for (int stride = 2;; ++stride) {
    std::vector<Tick> ticks = within({1}, stride);
    if (static_cast<int>(ticks.size()) <= most) return ticks;
  }
}

Scale::Scale(double low, double high, double from, double to, bool logarithmic)
    : low_(low), high_(high), from_(from), to_(to), log_(logarithmic) {}

double Scale::operator()(double value) const {
  value = std::clamp(value, low_, std::max(low_, high_));
  if (!(high_ > low_)) return (from_ + to_) / 2;
  const double share =
      log_ ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
  return from_ + share * (to_ - from_);
}

double text_width(std::string_view text) { return kLetter * static_cast<double>(text.size()); }

Svg::Svg(double width, double height, std::string_view title)
    : width_(width), height_(height), title_(title) {}

void Svg::shape(const std::string& element, std::string_view css, std::string_view tip) {
  body_ += "<" + element + " class=\"" + std::string(css) + "\"";
  const std::string name = element.substr(0, element.find(' '));
  body_ += tip.empty() ? "/>\n" : "><title>" + escape_xml(tip) + "</title></" + name + ">\n";
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view css) {
  shape("line" + attribute("x1", x1) + attribute("y1", y1) + attribute("x2", x2) +
            attribute("y2", y2),
        css, {});
}

void Svg::rect(double x, double y, double width, double height, std::string_view css,
               std::string_view tip) {
  shape("rect" + attribute("x", x) + attribute("y", y) + attribute("width", std::max(0.0, width)) +
            attribute("height", std::max(0.0, height)),
        css, tip);
}

void Svg::circle(double x, double y, double radius, std::string_view css, std::string_view tip) {
  shape("circle" + attribute("cx", x) + attribute("cy", y) + attribute("r", radius), css, tip);
}

void Svg::cross(double x, double y, double r, std::string_view css, std::string_view tip) {
  const std::string left = coordinate(x - r), right = coordinate(x + r);
  const std::string top = coordinate(y - r), bottom = coordinate(y + r);
  shape("path d=\"M" + left + " " + top + "L" + right + " " + bottom + "M" + left + " " + bottom +
            "L" + right + " " + top + "\"",
        css, tip);
}

void Svg::diamond(double x, double y, double r, std::string_view css, std::string_view tip) {
  shape("path d=\"M" + coordinate(x) + " " + coordinate(y - r) + "L" + coordinate(x + r) + " " +
            coordinate(y) + "L" + coordinate(x) + " " + coordinate(y + r) + "L" +
            coordinate(x - r) + " " + coordinate(y) + "Z\"",
        css, tip);
}

void Svg::polyline(const std::vector<std::pair<double, double>>& points, std::string_view css) {
  std::string list;
  for (const auto& [x, y] : points) {
    list += (list.empty() ? "" : " ") + coordinate(x) + "," + coordinate(y);
  }
  shape("polyline points=\"" + list + "\"", css, {});
}

void Svg::text(double x, double y, std::string_view text, std::string_view css, Anchor anchor) {
  body_ += "<text" + attribute("x", x) + attribute("y", y) + " text-anchor=\"" +
           anchor_name(anchor) + "\" class=\"" + std::string(css) + "\">" + escape_xml(text) +
           "</text>\n";
}

void Svg::text_upwards(double x, double y, std::string_view text, std::string_view css) {
  body_ += "<text transform=\"translate(" + coordinate(x) + " " + coordinate(y) +
           ") rotate(-90)\" text-anchor=\"middle\" class=\"" + std::string(css) + "\">" +
           escape_xml(text) + "</text>\n";
}

std::string Svg::finish() const {
  const std::string size = coordinate(width_) + " " + coordinate(height_);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + size +
         "\" role=\"img\" aria-label=\"" + escape_xml(title_) + "\">\n" + body_ + "</svg>\n";
}

Chart::Chart(const AxisSpec& x, const AxisSpec& y, double width, double height,
             std::string_view title, double right_margin)
    : left_(left_margin(y, kTicksY)),
      right_(width - right_margin),
      top_(10),
      bottom_(height - 3 * kLine),
      svg_(width, height, title),
      x_(x.low, x.high, left_, right_, x.logarithmic),
      y_(y.low, y.high, bottom_, top_, y.logarithmic) {
  for (const Tick& t : ticks_of(y, kTicksY)) {
    svg_.line(left_, y_(t.value), right_, y_(t.value), "grid");
    svg_.text(left_ - 6, y_(t.value) + 4, t.label, "tick", Anchor::End);
  }
  for (const Tick& t : ticks_of(x, kTicksX)) {
    svg_.line(x_(t.value), top_, x_(t.value), bottom_, "grid");
    svg_.line(x_(t.value), bottom_, x_(t.value), bottom_ + 4, "axis");
    svg_.text(x_(t.value), bottom_ + kLine + 4, t.label, "tick", Anchor::Middle);
  }
  svg_.line(left_, bottom_, right_, bottom_, "axis");
  svg_.line(left_, top_, left_, bottom_, "axis");
  svg_.text((left_ + right_) / 2, height - 6, x.title, "label", Anchor::Middle);
  svg_.text_upwards(kLine, (top_ + bottom_) / 2, y.title, "label");
}

}  // namespace heddle::cli
