#include "onnx/operators/resize_taps.h"

#include <algorithm>
#include <cmath>

namespace heddle::onnx {
namespace {

// The largest number of weights of a dimension.
constexpr double kMostTaps = 1 << 26;

/// The position in the input that element `o` of the result shows.
double position(const ResizeHow& how, const ResizeAxis& a, double o) {
  const auto from = static_cast<double>(a.from), to = static_cast<double>(a.to);
  const double exact = a.scale * from;  // the extent of the result before it was rounded
  switch (how.place) {
    case ResizePlace::HalfPixel: return (o + 0.5) / a.scale - 0.5;
    case ResizePlace::HalfPixelSymmetric:
      return from / 2 * (1 - to / exact) + (o + 0.5) / a.scale - 0.5;
    case ResizePlace::PyTorchHalfPixel: return exact == 1 ? -0.5 : (o + 0.5) / a.scale - 0.5;
    case ResizePlace::Asymmetric: return o / a.scale;
    case ResizePlace::AlignCorners: return exact == 1 ? 0 : o * (from - 1) / (exact - 1);
    case ResizePlace::Crop: {
      const double whole = from - 1, part = (a.end - a.begin) * whole;
      return a.begin * whole + (exact == 1 ? part / 2 : o * part / (exact - 1));
    }
  }
  return 0;
}

double keys(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/// Half of the number of elements that a filter covers, which a smaller result widens.
int64_t reach_of(const ResizeHow& how, double scale) {
  const double own = how.mode == ops::ResizeMode::Cubic ? 2 : 1;
  return how.antialias ? static_cast<int64_t>(std::ceil(own / std::min(scale, 1.0))) : int64_t(own);
}

/// The elements around a position, of which the first is `first`, and their weights.
struct Around {
  int64_t first = 0;
  std::vector<double> weights;
};

Around around(const ResizeHow& how, const ResizeAxis& a, double x, int64_t reach) {
  Around result;
  // A position on an element has it as the last of the lower half.
  result.first = static_cast<int64_t>(std::ceil(x)) - reach;
  const double scale = how.antialias ? std::min(a.scale, 1.0) : 1;
  double sum = 0;
  for (int64_t k = 0; k < 2 * reach; ++k) {
    const int64_t index = result.first + k;
    const double distance = (static_cast<double>(index) - x) * scale;
    double weight = how.mode == ops::ResizeMode::Cubic ? keys(distance, how.cubic_coefficient)
                                                       : std::max(0.0, 1 - std::abs(distance));
    if (how.exclude_outside && (index < 0 || index >= a.from)) weight = 0;
    result.weights.push_back(weight);
    sum += weight;
  }
  if (how.antialias || how.exclude_outside) {
    for (double& weight : result.weights) weight /= sum;
  }
  return result;
}

double nearest(ops::NearestRounding rounding, double x) {
  switch (rounding) {
    case ops::NearestRounding::PreferFloor: return std::ceil(x - 0.5);
    case ops::NearestRounding::PreferCeil: return std::floor(x + 0.5);
    case ops::NearestRounding::Floor: return std::floor(x);
    case ops::NearestRounding::Ceil: return std::ceil(x);
  }
  return x;
}

}  // namespace

Taps taps_of(const NodeScope& s, const ResizeHow& how, const ResizeAxis& a) {
  const bool one = how.mode == ops::ResizeMode::Nearest;
  const double width = one ? 1 : 4 / std::min(a.scale, 1.0) + 2;
  if (!(a.scale > 0) || !(static_cast<double>(a.to) * width <= kMostTaps))
    s.fail("a dimension of " + std::to_string(a.from) + " elements with the scale " +
           std::to_string(a.scale) + " has too many weights");
  const int64_t reach = reach_of(how, a.scale), taps = one ? 1 : 2 * reach;
  Taps result{NDArray::zeros({a.to, taps}, i64), NDArray::full({a.to, taps}, f32, 1),
              NDArray::zeros({a.to}, boolean)};
  auto* indices = result.indices.data<int64_t>();
  const auto last = static_cast<double>(a.from - 1);
  for (int64_t o = 0; o < a.to; ++o) {
    const double given = position(how, a, static_cast<double>(o));
    if (how.place == ResizePlace::Crop && !(given >= 0 && given <= last)) {
      result.any_outside = true;
      result.outside.set(o, 1);
    }
    // What is far outside is the border element.
    const auto far = static_cast<double>(2 * reach) + 1;
    const double x = std::fmax(std::fmin(given, last + far), -far);
    if (one) {
      indices[o] = static_cast<int64_t>(std::clamp(nearest(how.rounding, x), 0.0, last));
      continue;
    }
    const Around elements = around(how, a, x, reach);
    for (int64_t t = 0; t < taps; ++t) {
      indices[o * taps + t] = std::clamp<int64_t>(elements.first + t, 0, a.from - 1);
      result.weights.set(o * taps + t, elements.weights[static_cast<size_t>(t)]);
    }
  }
  return result;
}

}  // namespace heddle::onnx
