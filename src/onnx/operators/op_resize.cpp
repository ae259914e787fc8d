// Resizing. What ops::resize has is declared by it; everything else is a sum of known elements along each
// dimension (ops::resample).
#include <algorithm>
#include <cmath>
#include <optional>

#include "heddle/ops/elementwise.h"
#include "heddle/ops/resize.h"
#include "heddle/ops/transform.h"
#include "onnx/operators/resize_taps.h"

namespace heddle::onnx {
namespace {

/// The extents of a result, and how much larger each is, which need not be their exact ratio.
struct Sizes {
  Extents shape;
  std::vector<double> scales;
  std::vector<int> axes;  ///< that are resized
};

void keep_ratio(const NodeScope& s, const std::string& policy, const Extents& from, Sizes& sizes) {
  if (policy != "not_larger" && policy != "not_smaller")
    s.fail("attribute 'keep_aspect_ratio_policy' is '" + policy + "'");
  std::optional<double> scale;
  for (const int axis : sizes.axes) {
    const double own = sizes.scales[static_cast<size_t>(axis)];
    scale = !scale ? own : policy == "not_larger" ? std::min(*scale, own) : std::max(*scale, own);
  }
  for (const int axis : sizes.axes) {
    const auto d = static_cast<size_t>(axis);
    sizes.scales[d] = *scale;
    sizes.shape[d] = static_cast<int64_t>(*scale * static_cast<double>(from[d]) + 0.5);
  }
}

/// Reads the inputs `scales` and `sizes`, of which one is given; -1: there is no such input.
Sizes sizes_of(const NodeScope& s, int scales, int sizes) {
  const Extents from = s.shape(0);
  Sizes result{from, std::vector<double>(from.size(), 1), {}};
  for (const int64_t axis : s.integers("axes")) result.axes.push_back(s.axis(axis, s.rank(0)));
  if (result.axes.empty()) {
    for (int d = 0; d < s.rank(0); ++d) result.axes.push_back(d);
  }
  const bool by_size = sizes >= 0 && s.has(sizes) && s.value(sizes).size() > 0;
  std::vector<double> numbers;
  if (by_size) {
    for (const int64_t size : s.known_integers(sizes, "sizes"))
      numbers.push_back(static_cast<double>(size));
  } else if (scales >= 0 && s.has(scales)) {
    const NDArray& array = s.known(scales, "scales");
    for (int64_t i = 0; i < array.size(); ++i) numbers.push_back(array.get(i));
  } else {
    for (const float factor : s.numbers("scales")) numbers.push_back(factor);
  }
  if (numbers.size() != result.axes.size())
    s.fail(std::string("the ") + (by_size ? "sizes" : "scales") + " do not fit its dimensions");
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto d = static_cast<size_t>(result.axes[i]);
    const auto extent = static_cast<double>(from[d]);
    const double wanted = by_size ? numbers[i] : std::floor(extent * numbers[i]);
    if (!(wanted >= 1 && wanted < 1e9))
      s.fail(std::string(by_size ? "size " : "scale ") + std::to_string(numbers[i]) +
             " leaves nothing or too much");
    result.shape[d] = static_cast<int64_t>(wanted);
    result.scales[d] = by_size ? wanted / extent : numbers[i];
  }
  const std::string policy = s.text("keep_aspect_ratio_policy", "stretch");
  if (by_size && policy != "stretch") keep_ratio(s, policy, from, result);
  for (const int64_t extent : result.shape) {
    if (extent < 1) s.fail("the result " + shape_text(result.shape) + " has no elements");
  }
  return result;
}

ResizeHow how_of(const NodeScope& s) {
  ResizeHow how;
  const std::string mode = s.text("mode", "nearest");
  if (mode == "nearest")
    how.mode = ops::ResizeMode::Nearest;
  else if (mode == "linear")
    how.mode = ops::ResizeMode::Linear;
  else if (mode == "cubic")
    how.mode = ops::ResizeMode::Cubic;
  else
    s.fail("mode '" + mode + "' is not supported");
  const bool old = s.node().op == "Upsample" || s.opset() < 11;
  const std::string place =
      s.text("coordinate_transformation_mode", old ? "asymmetric" : "half_pixel");
  static const std::map<std::string, ResizePlace> kPlaces = {
      {"half_pixel", ResizePlace::HalfPixel},
      {"half_pixel_symmetric", ResizePlace::HalfPixelSymmetric},
      {"pytorch_half_pixel", ResizePlace::PyTorchHalfPixel},
      {"asymmetric", ResizePlace::Asymmetric},
      {"align_corners", ResizePlace::AlignCorners},
      {"tf_crop_and_resize", ResizePlace::Crop}};
  const auto known = kPlaces.find(place);
  if (known == kPlaces.end())
    s.fail("coordinate_transformation_mode '" + place + "' is not supported");
  how.place = known->second;
  static const std::map<std::string, ops::NearestRounding> kRoundings = {
      {"round_prefer_floor", ops::NearestRounding::PreferFloor},
      {"round_prefer_ceil", ops::NearestRounding::PreferCeil},
      {"floor", ops::NearestRounding::Floor},
      {"ceil", ops::NearestRounding::Ceil}};
  const std::string rounding = s.text("nearest_mode", old ? "floor" : "round_prefer_floor");
  const auto rounds = kRoundings.find(rounding);
  if (rounds == kRoundings.end()) s.fail("nearest_mode '" + rounding + "' is not supported");
  how.rounding = rounds->second;
  how.cubic_coefficient = s.number("cubic_coeff_a", -0.75);
  how.exclude_outside = s.integer("exclude_outside", 0) != 0;
  how.antialias = s.integer("antialias", 0) != 0;
  return how;
}

/// Whether ops::resize has it: batch and channels stay, and positions follow from the extents.
bool is_plain(const ResizeHow& how, const Sizes& sizes, const Extents& from) {
  const size_t rank = from.size();
  if (rank < 3 || rank > 5 || sizes.shape[0] != from[0] || sizes.shape[1] != from[1]) return false;
  const bool filters = how.mode != ops::ResizeMode::Nearest && how.antialias;
  if (filters || (how.mode == ops::ResizeMode::Cubic && how.exclude_outside)) return false;
  if (how.place == ResizePlace::Crop) return false;
  for (size_t d = 0; d < rank; ++d) {
    const double ratio = static_cast<double>(sizes.shape[d]) / static_cast<double>(from[d]);
    if (std::abs(ratio - sizes.scales[d]) > 1e-6 * sizes.scales[d]) return false;
    if (how.place == ResizePlace::PyTorchHalfPixel && d > 1 && sizes.shape[d] == 1) return false;
  }
  return true;
}

ops::Resize plain(const ResizeHow& how) {
  ops::Resize r{.mode = how.mode, .rounding = how.rounding};
  r.cubic_coefficient = how.cubic_coefficient;
  if (how.place == ResizePlace::Asymmetric) r.coordinates = ops::ResizeCoordinates::Asymmetric;
  if (how.place == ResizePlace::AlignCorners) r.coordinates = ops::ResizeCoordinates::AlignCorners;
  return r;
}

/// x resized along one dimension.
Tensor along_axis(const NodeScope& s, const Tensor& x, int axis, const ResizeHow& how,
                  const ResizeAxis& a, double outside) {
  const Taps taps = taps_of(s, how, a);
  const Tensor indices = s.constant(taps.indices).tensor();
  Tensor y;
  if (how.mode == ops::ResizeMode::Nearest)
    y = ops::gather(x, ops::reshape(indices, {a.to}, s.at()), axis, s.at());
  else
    y = ops::resample(x, axis, indices, s.constant(taps.weights).tensor(), s.at());
  if (!taps.any_outside) return y;
  const Tensor beyond = s.constant(taps.outside).tensor();
  return compute(
      y.shape(),
      [&](const std::vector<Axis>& i) {
        return select(beyond(i[static_cast<size_t>(axis)]), make_const(y.dtype(), outside), y(i));
      },
      "resize_outside", "resize", s.at());
}

// The regions are those of the dimensions that are resized: all starts, then all ends.
std::vector<Value> resized(const NodeScope& s, const Sizes& sizes, int regions) {
  const Extents from = s.shape(0);
  const ResizeHow how = how_of(s);
  const bool crops = how.place == ResizePlace::Crop;
  if (sizes.shape == from && !crops) return {s.value(0)};
  if (is_plain(how, sizes, from))
    return {
        ops::resize(s.tensor(0), {sizes.shape.begin() + 2, sizes.shape.end()}, plain(how), s.at())};
  if (how.mode == ops::ResizeMode::Nearest && how.antialias)
    s.fail("antialias of nearest elements");
  const size_t count = sizes.axes.size();
  const NDArray* region = crops && regions >= 0 ? &s.known(regions, "regions") : nullptr;
  if (crops && (region == nullptr || region->size() != static_cast<int64_t>(2 * count)))
    s.fail("its regions do not fit its dimensions");
  Tensor x = s.tensor(0);
  for (size_t i = 0; i < count; ++i) {
    const auto d = static_cast<size_t>(sizes.axes[i]);
    ResizeAxis a{.from = from[d], .to = sizes.shape[d], .scale = sizes.scales[d]};
    if (crops) {
      a.begin = region->get(static_cast<int64_t>(i));
      a.end = region->get(static_cast<int64_t>(count + i));
    }
    const bool same = a.from == a.to && std::abs(a.scale - 1) < 1e-9 && a.begin == 0 && a.end == 1;
    if (!same) x = along_axis(s, x, sizes.axes[i], how, a, s.number("extrapolation_value", 0.0));
  }
  return {x};
}

std::vector<Value> resize(const NodeScope& s) {
  return s.opset() < 11 ? resized(s, sizes_of(s, 1, -1), -1) : resized(s, sizes_of(s, 2, 3), 1);
}

std::vector<Value> upsample(const NodeScope& s) { return resized(s, sizes_of(s, 1, -1), -1); }

}  // namespace

std::vector<OperatorEntry> resize_operators() {
  return {{"Resize", resize}, {"Upsample", upsample}};
}

}  // namespace heddle::onnx
