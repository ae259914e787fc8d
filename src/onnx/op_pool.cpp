// Pooling and resizing.
#include <cmath>

#include "heddle/ops/elementwise.h"
#include "heddle/ops/pool.h"
#include "heddle/ops/reduce.h"
#include "heddle/ops/resize.h"
#include "heddle/ops/transform.h"
#include "onnx/node_scope.h"
#include "onnx/window_attributes.h"

namespace heddle::onnx {
namespace {

ops::Pool pool_attributes(const NodeScope& s) {
  const WindowAttributes w =
      window_attributes(s, s.integers("kernel_shape"), spatial_extents(s, 0));
  return {.kernel = w.kernel,
          .stride = w.stride,
          .padding = w.padding,
          .dilation = w.dilation,
          .ceil_mode = s.integer("ceil_mode", 0) != 0,
          .count_include_pad = s.integer("count_include_pad", 0) != 0};
}

std::vector<Value> max_pool(const NodeScope& s) {
  if (s.node().outputs.size() > 1 && !s.node().outputs[1].empty())
    s.fail("its second output, the positions of the largest elements, is not supported");
  return {ops::max_pool(s.tensor(0), pool_attributes(s), s.at())};
}

std::vector<Value> average_pool(const NodeScope& s) {
  return {ops::avg_pool(s.tensor(0), pool_attributes(s), s.at())};
}

// The p-norm of a window is the mean of |x|^p times the number of elements, to the power 1/p.
std::vector<Value> lp_pool(const NodeScope& s) {
  const auto p = static_cast<double>(s.integer("p", 2));
  ops::Pool attributes = pool_attributes(s);
  attributes.count_include_pad = true;
  attributes.ceil_mode = s.integer("ceil_mode", 0) != 0;
  double elements = 1;
  for (const int64_t extent : attributes.kernel) elements *= static_cast<double>(extent);
  const Tensor powers = ops::pow(ops::abs(s.tensor(0), s.at()), p, s.at());
  const Tensor mean = ops::avg_pool(powers, attributes, s.at());
  return {ops::pow(ops::mul(mean, make_const(mean.dtype(), elements), s.at()), 1 / p, s.at())};
}

std::vector<int> spatial_axes(const NodeScope& s) {
  std::vector<int> axes;
  for (int d = 2; d < s.rank(0); ++d) axes.push_back(d);
  if (axes.empty()) s.fail("its input " + shape_text(s.shape(0)) + " has no spatial dimensions");
  return axes;
}

std::vector<Value> global_average_pool(const NodeScope& s) {
  return {ops::mean(s.tensor(0), spatial_axes(s), true, s.at())};
}

std::vector<Value> global_max_pool(const NodeScope& s) {
  return {ops::max(s.tensor(0), spatial_axes(s), true, s.at())};
}

std::vector<Value> global_lp_pool(const NodeScope& s) {
  const auto p = static_cast<double>(s.integer("p", 2));
  const Tensor powers = ops::pow(ops::abs(s.tensor(0), s.at()), p, s.at());
  return {ops::pow(ops::sum(powers, spatial_axes(s), true, s.at()), 1 / p, s.at())};
}

// The extents that sizes or scales ask for. Axes that are not listed keep theirs.
Extents resized_shape(const NodeScope& s, int scales, int sizes) {
  const Extents from = s.shape(0);
  std::vector<int64_t> axes = s.integers("axes");
  if (axes.empty()) {
    for (int d = 0; d < s.rank(0); ++d) axes.push_back(d);
  }
  Extents shape = from;
  const bool by_size = sizes >= 0 && s.has(sizes) && s.value(sizes).size() > 0;
  if (by_size) {
    const std::vector<int64_t> wanted = s.known_integers(sizes, "sizes");
    if (wanted.size() != axes.size()) s.fail("the sizes do not fit its dimensions");
    for (size_t i = 0; i < axes.size(); ++i)
      shape[static_cast<size_t>(s.axis(axes[i], s.rank(0)))] = wanted[i];
    return shape;
  }
  std::vector<double> factors;
  if (scales >= 0 && s.has(scales)) {
    const NDArray& array = s.known(scales, "scales");
    for (int64_t i = 0; i < array.size(); ++i) factors.push_back(array.get(i));
  } else {
    for (const float factor : s.numbers("scales")) factors.push_back(factor);
  }
  if (factors.size() != axes.size()) s.fail("the scales do not fit its dimensions");
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto d = static_cast<size_t>(s.axis(axes[i], s.rank(0)));
    const double extent = std::floor(static_cast<double>(from[d]) * factors[i]);
    if (!(extent >= 1 && extent < 1e9))
      s.fail("scale " + std::to_string(factors[i]) + " leaves nothing or too much");
    // Positions are computed from the extents, so a scale must be their exact ratio.
    shape[d] = static_cast<int64_t>(extent);
    if (std::abs(extent / static_cast<double>(from[d]) - factors[i]) > 1e-6 * factors[i])
      s.fail("scale " + std::to_string(factors[i]) + " of an extent of " + std::to_string(from[d]) +
             " gives no whole number, which is not supported");
  }
  return shape;
}

ops::Resize resize_attributes(const NodeScope& s) {
  ops::Resize r;
  const std::string mode = s.text("mode", "nearest");
  if (mode == "nearest")
    r.mode = ops::ResizeMode::Nearest;
  else if (mode == "linear")
    r.mode = ops::ResizeMode::Linear;
  else if (mode == "cubic")
    r.mode = ops::ResizeMode::Cubic;
  else
    s.fail("mode '" + mode + "' is not supported");
  const bool old = s.node().op == "Upsample" || s.opset() < 11;
  const std::string place =
      s.text("coordinate_transformation_mode", old ? "asymmetric" : "half_pixel");
  if (place == "half_pixel" || place == "half_pixel_symmetric" || place == "pytorch_half_pixel")
    r.coordinates = ops::ResizeCoordinates::HalfPixel;
  else if (place == "asymmetric")
    r.coordinates = ops::ResizeCoordinates::Asymmetric;
  else if (place == "align_corners")
    r.coordinates = ops::ResizeCoordinates::AlignCorners;
  else
    s.fail("coordinate_transformation_mode '" + place + "' is not supported");
  const std::string rounding = s.text("nearest_mode", old ? "floor" : "round_prefer_floor");
  if (rounding == "round_prefer_floor")
    r.rounding = ops::NearestRounding::PreferFloor;
  else if (rounding == "round_prefer_ceil")
    r.rounding = ops::NearestRounding::PreferCeil;
  else if (rounding == "floor")
    r.rounding = ops::NearestRounding::Floor;
  else if (rounding == "ceil")
    r.rounding = ops::NearestRounding::Ceil;
  else
    s.fail("nearest_mode '" + rounding + "' is not supported");
  if (s.integer("antialias", 0) != 0 && r.mode != ops::ResizeMode::Nearest)
    s.fail("antialias is not supported");
  if (s.integer("exclude_outside", 0) != 0 && r.mode == ops::ResizeMode::Cubic)
    s.fail("exclude_outside is not supported");
  r.cubic_coefficient = s.number("cubic_coeff_a", -0.75);
  return r;
}

Value resized(const NodeScope& s, const Extents& shape) {
  const Extents from = s.shape(0);
  if (shape == from) return s.value(0);
  const ops::Resize attributes = resize_attributes(s);
  if (s.text("coordinate_transformation_mode", "") == "pytorch_half_pixel") {
    for (size_t d = 2; d < shape.size(); ++d) {
      if (shape[d] == 1) s.fail("pytorch_half_pixel to an extent of 1 is not supported");
    }
  }
  const size_t rank = shape.size();
  if (rank < 3 || rank > 5 || shape[0] != from[0] || shape[1] != from[1])
    s.fail("from " + shape_text(from) + " to " + shape_text(shape) +
           ": only the spatial dimensions after batch and channels can be resized");
  return ops::resize(s.tensor(0), {shape.begin() + 2, shape.end()}, attributes, s.at());
}

std::vector<Value> resize(const NodeScope& s) {
  if (s.text("keep_aspect_ratio_policy", "stretch") != "stretch")
    s.fail("keep_aspect_ratio_policy is not supported");
  return {resized(s, s.opset() < 11 ? resized_shape(s, 1, -1) : resized_shape(s, 2, 3))};
}

std::vector<Value> upsample(const NodeScope& s) { return {resized(s, resized_shape(s, 1, -1))}; }

}  // namespace

std::vector<OperatorEntry> pool_operators() {
  return {
      {"AveragePool", average_pool},
      {"GlobalAveragePool", global_average_pool},
      {"GlobalLpPool", global_lp_pool},
      {"GlobalMaxPool", global_max_pool},
      {"LpPool", lp_pool},
      {"MaxPool", max_pool},
      {"Resize", resize},
      {"Upsample", upsample},
  };
}

}  // namespace heddle::onnx
