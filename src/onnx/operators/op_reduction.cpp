// Reductions along axes, and positions of extremes.
#include "heddle/ops/elementwise.h"
#include "heddle/ops/reduce.h"
#include "heddle/ops/transform.h"
#include "onnx/node_scope.h"

namespace heddle::onnx {
namespace {

using Reduce = Tensor (*)(const Tensor&, const std::vector<int>&, bool, Where);

// Axes were an attribute first, and are an input since opset 13 (ReduceSum) or 18. Without axes all
// are reduced, or with `noop_with_empty_axes` none.
std::vector<Value> reduced(const NodeScope& s, Reduce reduce, const Tensor& x) {
  const std::vector<int64_t> given = s.integers_of_input_or(1, "axes");
  const bool keep = s.integer("keepdims", 1) != 0;
  std::vector<int> axes;
  for (const int64_t axis : given) axes.push_back(s.axis(axis, x.rank()));
  if (axes.empty()) {
    if (s.integer("noop_with_empty_axes", 0) != 0 || x.rank() == 0) return {x};
    for (int d = 0; d < x.rank(); ++d) axes.push_back(d);
  }
  return {reduce(x, axes, keep, s.at())};
}

template <Reduce F>
std::vector<Value> plain(const NodeScope& s) {
  return reduced(s, F, s.tensor(0));
}

std::vector<Value> sum_square(const NodeScope& s) {
  return reduced(s, ops::sum, ops::square(s.tensor(0), s.at()));
}

std::vector<Value> l1(const NodeScope& s) {
  return reduced(s, ops::sum, s.dtype(0).is_uint() ? s.tensor(0) : ops::abs(s.tensor(0), s.at()));
}

// The norm without reduced axes is the magnitude, so the square is taken in every case.
std::vector<Value> l2(const NodeScope& s) {
  const Value squares = sum_square(s)[0];
  if (squares.dtype().is_float()) return {ops::sqrt(squares.tensor(), s.at())};
  const Tensor root = ops::sqrt(ops::cast(squares.tensor(), f64, s.at()), s.at());
  return {ops::cast(root, s.dtype(0), s.at())};
}

std::vector<Value> log_sum(const NodeScope& s) {
  return {ops::log(reduced(s, ops::sum, s.tensor(0))[0].tensor(), s.at())};
}

std::vector<Value> log_sum_exp(const NodeScope& s) {
  if (!s.dtype(0).is_float()) s.fail("its input is not of floats");
  return reduced(s, ops::logsumexp, s.tensor(0));
}

// For integers: the sum divided by the number of elements, rounded towards zero.
std::vector<Value> mean(const NodeScope& s) {
  if (s.dtype(0).is_float()) return reduced(s, ops::mean, s.tensor(0));
  const Tensor total = reduced(s, ops::sum, s.tensor(0))[0].tensor();
  int64_t elements = 1;
  for (const int64_t extent : total.extents()) elements *= extent;
  const int64_t count = s.value(0).size() / elements;
  return {ops::div(total, cast(total.dtype(), Expr(count)), s.at())};
}

// The extremes of bools are any and all.
template <Reduce F, Reduce OfBools>
std::vector<Value> extreme(const NodeScope& s) {
  return reduced(s, s.dtype(0).is_bool() ? OfBools : F, s.tensor(0));
}

// The last of equal elements is the first of the flipped tensor.
template <Tensor (*F)(const Tensor&, int, bool, Where)>
std::vector<Value> position(const NodeScope& s) {
  const int axis = s.axis(s.integer("axis", 0), s.rank(0));
  const bool keep = s.integer("keepdims", 1) != 0;
  const Tensor x = s.tensor(0);
  if (s.integer("select_last_index", 0) == 0) return {F(x, axis, keep, s.at())};
  const Tensor from_back = F(ops::flip(x, {axis}, s.at()), axis, keep, s.at());
  return {ops::elementwise(
      "flip_index", {from_back},
      [&](const std::vector<Expr>& v) { return Expr(x.extent(axis) - 1) - v[0]; }, s.at())};
}

}  // namespace

std::vector<OperatorEntry> reduction_operators() {
  return {
      {"ArgMax", position<ops::argmax>},
      {"ArgMin", position<ops::argmin>},
      {"ReduceL1", l1},
      {"ReduceL2", l2},
      {"ReduceLogSum", log_sum},
      {"ReduceLogSumExp", log_sum_exp},
      {"ReduceMax", extreme<ops::max, ops::any>},
      {"ReduceMean", mean},
      {"ReduceMin", extreme<ops::min, ops::all>},
      {"ReduceProd", plain<ops::prod>},
      {"ReduceSum", plain<ops::sum>},
      {"ReduceSumSquare", sum_square},
  };
}

}  // namespace heddle::onnx
