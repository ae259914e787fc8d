// Operators of com.microsoft on quantised tensors: each computes with the numbers that the bytes stand
// for, and rounds once.
#include <algorithm>

#include "heddle/ops/elementwise.h"
#include "heddle/ops/nn.h"
#include "heddle/ops/pool.h"
#include "heddle/ops/reduce.h"
#include "heddle/ops/transform.h"
#include "onnx/operators/quantised.h"
#include "onnx/operators/window_attributes.h"

namespace heddle::onnx {
namespace {

/// Input `i`, one number as the file has it, in a type; 0 where it is left out.
Expr scalar(const NodeScope& s, int i, DataType type) {
  if (!s.has(i)) return make_const(type, 0);
  const Value& value = s.exact(i);
  if (value.size() != 1)
    s.fail("its input " + std::to_string(i) + " " + shape_text(value.shape()) +
           " needs to be one number");
  if (value.is_immediate()) return cast(type, value.immediate());
  return cast(type, value.tensor().at(std::vector<Expr>(value.shape().size(), Expr(0))));
}

/// A scale and the zero point behind it among the inputs.
struct Scale {
  Scale(const NodeScope& s, int at) : scale(scalar(s, at, f32)), zero(scalar(s, at + 1, i32)) {}

  /// The number that a byte stands for, without its scale.
  Expr steps(const Expr& byte) const { return cast(f32, cast(i32, byte) - zero); }
  Expr number(const Expr& byte) const { return steps(byte) * scale; }
  Expr quantised(const Expr& number, DataType type) const {
    return saturated(round(number / scale) + cast(f32, zero), type);
  }
  Expr scale, zero;
};

std::vector<Value> add(const NodeScope& s) {
  const Scale a(s, 1), b(s, 4), y(s, 6);
  return {ops::elementwise(
      "quantized_add", {s.tensor(0), s.tensor(3)},
      [&](const std::vector<Expr>& v) {
        return y.quantised(a.number(v[0]) + b.number(v[1]), s.dtype(0));
      },
      s.at())};
}

std::vector<Value> mul(const NodeScope& s) {
  const Scale a(s, 1), b(s, 4), y(s, 6);
  return {ops::elementwise(
      "quantized_mul", {s.tensor(0), s.tensor(3)},
      [&](const std::vector<Expr>& v) {
        const Expr product = a.steps(v[0]) * b.steps(v[1]) * (a.scale * b.scale / y.scale);
        return saturated(round(product) + cast(f32, y.zero), s.dtype(0));
      },
      s.at())};
}

/// `f` of the numbers of input 0, whose scale is input 1, with the scale of input 3.
template <class F>
std::vector<Value> of_numbers(const NodeScope& s, F f) {
  const Scale x(s, 1), y(s, 3);
  return {ops::elementwise(
      "quantized", {s.tensor(0)},
      [&](const std::vector<Expr>& v) { return y.quantised(f(x.number(v[0])), s.dtype(0)); },
      s.at())};
}

std::vector<Value> sigmoid(const NodeScope& s) {
  return of_numbers(
      s, [](const Expr& x) { return make_const(f32, 1) / (make_const(f32, 1) + exp(-x)); });
}

std::vector<Value> leaky_relu(const NodeScope& s) {
  const double alpha = s.number("alpha", 0.01F);
  return of_numbers(s, [&](const Expr& x) {
    return select(x >= make_const(f32, 0), x, x * make_const(f32, alpha));
  });
}

Tensor numbers(const NodeScope& s) {
  const Scale x(s, 1);
  return ops::elementwise(
      "dequantize", {s.tensor(0)}, [&](const std::vector<Expr>& v) { return x.number(v[0]); },
      s.at());
}

Value quantised(const NodeScope& s, const Tensor& numbers) {
  const Scale y(s, 3);
  return ops::elementwise(
      "quantize", {numbers},
      [&](const std::vector<Expr>& v) { return y.quantised(v[0], s.dtype(0)); }, s.at());
}

// `opset` is that of the Softmax that the node stands for.
std::vector<Value> softmax(const NodeScope& s) {
  const int axis = s.axis(s.integer("axis", -1), s.rank(0));
  const Tensor x = numbers(s);
  if (s.integer("opset", 13) >= 13) return {quantised(s, ops::softmax(x, axis, s.at()))};
  const Tensor rows = ops::softmax(ops::flatten(x, axis, s.at()), 1, s.at());
  return {quantised(s, ops::reshape(rows, x.extents(), s.at()))};
}

ops::Layout layout_of(const NodeScope& s) {
  return s.integer("channels_last", 0) != 0 ? ops::NHWC : ops::NCHW;
}

ops::Pool pool_of(const NodeScope& s, ops::Layout layout) {
  Extents image = s.shape(0);
  if (image.size() < 3) s.fail("its input " + shape_text(image) + " has no image");
  image.erase(image.begin());
  image.erase(layout == ops::NCHW ? image.begin() : image.end() - 1);
  const WindowAttributes w = window_attributes(s, s.integers("kernel_shape"), image);
  return {.kernel = w.kernel,
          .stride = w.stride,
          .padding = w.padding,
          .dilation = w.dilation,
          .ceil_mode = s.integer("ceil_mode", 0) != 0,
          .count_include_pad = s.integer("count_include_pad", 0) != 0,
          .layout = layout};
}

std::vector<Value> average_pool(const NodeScope& s) {
  return {quantised(s, ops::avg_pool(numbers(s), pool_of(s, layout_of(s)), s.at()))};
}

std::vector<Value> global_average_pool(const NodeScope& s) {
  return {quantised(s, ops::global_avg_pool(numbers(s), layout_of(s), s.at()))};
}

std::vector<Value> max_pool(const NodeScope& s) {
  return {ops::max_pool(s.tensor(0), pool_of(s, ops::NHWC), s.at())};
}

// The scale of the result, then tensors with theirs. One with the scale of the result is copied.
std::vector<Value> concat(const NodeScope& s) {
  const Scale y(s, 0);
  const DataType type = s.dtype(1);
  std::vector<Value> parts;
  for (int i = 2; i < s.count(); i += 3) {
    const Scale x(s, i + 1);
    const bool same = equal(x.scale, y.scale) && equal(x.zero, y.zero);
    parts.push_back(
        same ? s.value(i)
             : Value(ops::elementwise(
                   "requantize", {s.tensor(i)},
                   [&](const std::vector<Expr>& v) { return y.quantised(x.number(v[0]), type); },
                   s.at())));
  }
  return {s.part("Concat", parts, {{"axis", {s.integer("axis"), ""}}})};
}

}  // namespace

std::vector<OperatorEntry> microsoft_quantised_operators() {
  return {{"NhwcMaxPool", max_pool},
          {"QLinearAdd", add},
          {"QLinearAveragePool", average_pool},
          {"QLinearConcat", concat},
          {"QLinearGlobalAveragePool", global_average_pool},
          {"QLinearLeakyRelu", leaky_relu},
          {"QLinearMul", mul},
          {"QLinearSigmoid", sigmoid},
          {"QLinearSoftmax", softmax}};
}

}  // namespace heddle::onnx
