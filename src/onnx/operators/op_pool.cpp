// Pooling.
#include "heddle/ops/elementwise.h"
#include "heddle/ops/pool.h"
#include "heddle/ops/reduce.h"
#include "heddle/ops/transform.h"
#include "onnx/node_scope.h"
#include "onnx/operators/window_attributes.h"

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

/// Positions in planes of `shape` (N, C, spatial...) as positions in the whole tensor. With `storage_order`
/// the spatial dimensions are counted from the first.
Tensor in_whole_tensor(const NodeScope& s, const Tensor& positions, const Extents& shape) {
  const bool from_first = s.integer("storage_order", 0) != 0;
  int64_t plane = 1;
  for (size_t d = 2; d < shape.size(); ++d) plane *= shape[d];
  return compute(
      positions.shape(),
      [&](const std::vector<Axis>& i) {
        Expr place = positions(i);
        if (from_first) {
          Expr rest = place;
          int64_t step = plane;
          place = Expr(0);
          for (size_t d = shape.size(); d-- > 2;) {
            step /= shape[d];
            place = place + floormod(rest, shape[d]) * step;
            rest = floordiv(rest, shape[d]);
          }
        }
        return (i[0] * shape[1] + i[1]) * plane + place;
      },
      "max_pool_indices", "max_pool", s.at());
}

std::vector<Value> max_pool(const NodeScope& s) {
  const ops::Pool attributes = pool_attributes(s);
  const Tensor x = s.tensor(0), y = ops::max_pool(x, attributes, s.at());
  if (s.node().outputs.size() < 2 || s.node().outputs[1].empty()) return {y};
  return {y, in_whole_tensor(s, ops::max_pool_positions(x, attributes, s.at()), x.extents())};
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

}  // namespace

std::vector<OperatorEntry> pool_operators() {
  return {
      {"AveragePool", average_pool},
      {"GlobalAveragePool", global_average_pool},
      {"GlobalLpPool", global_lp_pool},
      {"GlobalMaxPool", global_max_pool},
      {"LpPool", lp_pool},
      {"MaxPool", max_pool},
  };
}

}  // namespace heddle::onnx
