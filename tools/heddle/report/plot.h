// The elements of a chart: ticks, scales and elements of SVG.
//
// Coordinates are those of the viewBox, y downwards. Colours are CSS classes (page.cpp has the
// style sheet), so that a chart reads on light and dark pages alike.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace heddle::cli {

/// Text for an element or an attribute of XML and HTML. Characters that these do not allow become
/// '?'.
std::string escape_xml(std::string_view text);

/// "12.5": at most two digits after the point, no trailing zeros.
std::string coordinate(double value);

struct Tick {
  double value = 0;
  std::string label;
};
/// Round values within [low, high], at most `most` of them, at 1, 2 or 5 times a power of ten.
std::vector<Tick> linear_ticks(double low, double high, int most);
/// The same for a logarithmic axis (low > 0): powers of ten, with 2 and 5 where there is room.
std::vector<Tick> log_ticks(double low, double high, int most);

/// From values to coordinates.
class Scale {
 public:
  Scale(double low, double high, double from, double to, bool logarithmic = false);
  /// Values beyond the ends are drawn at the ends.
  double operator()(double value) const;
  double low() const { return low_; }
  double high() const { return high_; }
  bool logarithmic() const { return log_; }

 private:
  double low_, high_, from_, to_;
  bool log_;
};

enum class Anchor : uint8_t { Start, Middle, End };

/// A drawing, element by element. `tip` is the text that a pointer on the element shows.
class Svg {
 public:
  Svg(double width, double height, std::string_view title);

  void line(double x1, double y1, double x2, double y2, std::string_view css);
  void rect(double x, double y, double width, double height, std::string_view css,
            std::string_view tip = {});
  void circle(double x, double y, double radius, std::string_view css, std::string_view tip = {});
  void cross(double x, double y, double radius, std::string_view css, std::string_view tip = {});
  void diamond(double x, double y, double radius, std::string_view css, std::string_view tip = {});
  void polyline(const std::vector<std::pair<double, double>>& points, std::string_view css);
  void text(double x, double y, std::string_view text, std::string_view css,
            Anchor anchor = Anchor::Start);
  /// Text turned by 90 degrees, to be read upwards.
  void text_upwards(double x, double y, std::string_view text, std::string_view css);

  std::string finish() const;
  double width() const { return width_; }
  double height() const { return height_; }

 private:
  void shape(const std::string& element, std::string_view css, std::string_view tip);
  double width_, height_;
  std::string title_, body_;
};

/// The approximate width of text in the size of the charts, for margins and the distance of labels.
double text_width(std::string_view text);

struct AxisSpec {
  std::string title;
  double low = 0, high = 1;
  bool logarithmic = false;
};

/// A plot with two axes, their ticks, a grid and titles. Later elements are drawn on top of earlier
/// ones.
class Chart {
 public:
  /// `right_margin`: for labels beside the plot.
  Chart(const AxisSpec& x, const AxisSpec& y, double width, double height, std::string_view title,
        double right_margin = 14);
  Svg& svg() { return svg_; }
  double x(double value) const { return x_(value); }
  double y(double value) const { return y_(value); }
  double left() const { return left_; }
  double right() const { return right_; }
  double top() const { return top_; }
  double bottom() const { return bottom_; }
  std::string finish() const { return svg_.finish(); }

 private:
  double left_, right_, top_, bottom_;
  Svg svg_;
  Scale x_, y_;
};

}  // namespace heddle::cli
