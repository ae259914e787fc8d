// Products and convolutions of bytes with zero points, which machines have instructions for:
//
//   sum (a - za) (b - zb) = sum a b - za sum b - zb sum a + depth za zb
//
// The first sum is one of products of bytes, and sums of weights are computed once. Integers wrap,
// so both sides are equal whatever the sizes.
#include <algorithm>

#include "heddle/ops/elementwise.h"
#include "heddle/ops/linalg.h"
#include "heddle/ops/reduce.h"
#include "heddle/ops/transform.h"
#include "onnx/operators/convolution.h"
#include "onnx/operators/quantised.h"

namespace heddle::onnx {
namespace {

/// Input `i`, a scale or a zero point as the file has it, along a dimension, in another type.
Tensor parameter(const NodeScope& s, int i, DataType type, int after) {
  const Tensor t = s.exact(i).tensor();
  return along(s, t.dtype() == type ? t : ops::cast(t, type, s.at()), after);
}

/// The positions of two operands and of their zero points among the inputs.
struct Positions {
  int a, b, a_zero, b_zero;
};

/// The product of two operands whose zero points may be undefined; those of a row of a, and of a
/// column of b, broadcast to the product.
Tensor integer_matmul(const NodeScope& s, const Tensor& a, const Tensor& b, const Tensor& a_zero,
                      const Tensor& b_zero) {
  const bool matrices = a.rank() > 1 && b.rank() > 1;
  Tensor y = ops::matmul(a, b, false, false, {}, s.at());
  const auto sums = [&](const Tensor& x, int axis, bool keep) {
    return ops::sum(ops::cast(x, i32, s.at()), {axis}, keep, s.at());
  };
  const auto subtract = [&](const Tensor& point, const Tensor& of_other) {
    y = ops::sub(y, ops::mul(of_other, point, s.at()), s.at());
  };
  if (a_zero) subtract(a_zero, sums(b, b.rank() > 1 ? b.rank() - 2 : 0, matrices));
  if (b_zero) subtract(b_zero, sums(a, a.rank() - 1, matrices));
  if (a_zero && b_zero) {
    const Tensor both = ops::mul(a_zero, b_zero, s.at());
    const int64_t depth = a.extent(a.rank() - 1);
    y = ops::add(y, ops::mul(both, make_const(i32, static_cast<double>(depth)), s.at()), s.at());
  }
  return y;
}

/// A zero point in i32, undefined where it is 0.
Tensor point(const NodeScope& s, int i, int after) {
  return is_zero(s, i) ? Tensor() : parameter(s, i, i32, after);
}

Tensor integer_matmul(const NodeScope& s, const Positions& at) {
  const Tensor a = s.tensor(at.a), b = s.tensor(at.b);
  return integer_matmul(s, a, b, point(s, at.a_zero, b.rank() > 1 ? 1 : 0), point(s, at.b_zero, 0));
}

/// Whether input `w` without its zero points has only values of i8, as known arrays show. The
/// weights have one point, or one for each index of the first dimension.
bool is_signed_byte(const NodeScope& s, int w, int zero) {
  if (!s.value(w).known() || !s.value(zero).known()) return false;
  const NDArray &weights = s.value(w).array(), &points = s.value(zero).array();
  if (weights.size() == 0 || points.size() == 0) return false;
  const int64_t each = std::max<int64_t>(1, weights.size() / points.size());
  for (int64_t i = 0; i < weights.size(); ++i) {
    const double v = weights.get(i) - points.get(std::min(i / each, points.size() - 1));
    if (v < -128 || v > 127) return false;
  }
  return true;
}

/// x with its padding as elements; the attributes have none any more.
Tensor padded(const NodeScope& s, const Tensor& x, double value, ops::Conv& attributes) {
  const size_t n = attributes.padding.size() / 2;
  std::vector<int64_t> before{0, 0}, after{0, 0};
  before.insert(before.end(), attributes.padding.begin(), attributes.padding.begin() + n);
  after.insert(after.end(), attributes.padding.begin() + n, attributes.padding.end());
  attributes.padding.assign(2 * n, 0);
  return ops::pad(x, before, after, ops::PadMode::Constant, value, s.at());
}

/// `bias` (one for each channel of the results, in i32) may be undefined. Padding has the value of
/// the zero point, so that it adds nothing.
Tensor integer_conv(const NodeScope& s, const Positions& at, Tensor bias) {
  ops::Conv attributes = conv_attributes(s, at.b);
  Tensor x = s.tensor(at.a), w = s.tensor(at.b);
  const int spatial = x.rank() - 2;
  const bool shifted = !is_zero(s, at.b_zero);
  const bool known = !s.has(at.a_zero) || s.value(at.a_zero).is_immediate();
  const bool bytes = known && (!shifted || is_signed_byte(s, at.b, at.b_zero));
  if (shifted || !bytes) w = ops::cast(w, i32, s.at());
  if (shifted) w = ops::sub(w, parameter(s, at.b_zero, i32, spatial + 1), s.at());
  if (!bytes) {
    x = ops::cast(x, i32, s.at());
    if (s.has(at.a_zero)) x = ops::sub(x, parameter(s, at.a_zero, i32, 0), s.at());
    return convolution(s, x, w, attributes, bias);
  }
  if (shifted) w = ops::cast(w, i8, s.at());
  if (is_zero(s, at.a_zero)) return convolution(s, x, w, attributes, bias);
  const double point = s.value(at.a_zero).array().get(0);
  std::vector<int> window;
  for (int d = 1; d < w.rank(); ++d) window.push_back(d);
  const Tensor sums = ops::sum(ops::cast(w, i32, s.at()), window, false, s.at());
  const Tensor offset = ops::mul(sums, make_const(i32, -point), s.at());
  bias = bias ? ops::add(bias, offset, s.at()) : offset;
  return convolution(s, padded(s, x, point, attributes), w, attributes, bias);
}

/// The scales of the operands and of the result, whose zero point follows its scale.
struct Scales {
  int a, b, y;
};

/// What multiplies the sums: a scale times a scale, over a scale, rounded to f32 each time. Known
/// scales make a known array, so that nothing of it is computed in a call.
Tensor factor_of_sums(const NodeScope& s, const Scales& at, int after_a, int after_b) {
  const Value &a = s.exact(at.a), &b = s.exact(at.b), &y = s.exact(at.y);
  if (!a.is_immediate() || !b.known() || !y.is_immediate()) {
    return ops::elementwise(
        "requantize_scale",
        {parameter(s, at.a, f32, after_a), parameter(s, at.b, f32, after_b),
         parameter(s, at.y, f32, 0)},
        [](const std::vector<Expr>& v) { return v[0] * v[1] / v[2]; }, s.at());
  }
  Extents shape;
  if (b.size() > 1) {
    shape = b.shape();
    if (shape.size() == 1) shape.resize(static_cast<size_t>(after_b) + 1, 1);
  }
  const NDArray factors = NDArray::empty(shape, f32);
  const auto number = [](const Value& v, int64_t i) {
    return static_cast<float>(v.array().get(i));
  };
  for (int64_t i = 0; i < factors.size(); ++i)
    factors.data<float>()[i] = number(a, 0) * number(b, i) / number(y, 0);
  return s.constant(factors).tensor();
}

/// The sums in the type and scale of the result. One factor multiplies them.
Tensor requantized(const NodeScope& s, const Tensor& sums, const Scales& at, int after_a,
                   int after_b) {
  const Value& point = s.value(at.y + 1);
  const DataType type = point.dtype();
  std::vector<Tensor> inputs{sums, factor_of_sums(s, at, after_a, after_b)};
  if (!point.is_immediate()) inputs.push_back(parameter(s, at.y + 1, f32, 0));
  return ops::elementwise(
      "requantize", inputs,
      [&](const std::vector<Expr>& v) {
        const Expr zero = v.size() > 2 ? v[2] : cast(f32, point.immediate());
        return saturated(round(cast(f32, v[0]) * v[1]) + zero, type);
      },
      s.at());
}

/// Sums in floats: times the scales of both operands, and a bias if it is not undefined.
Tensor scaled_sums(const NodeScope& s, const Tensor& sums, const Tensor& a_scale,
                   const Tensor& b_scale, double alpha, const Tensor& bias) {
  const Tensor scale = ops::elementwise(
      "product_scale", {a_scale, b_scale},
      [&](const std::vector<Expr>& v) {
        const Expr both = v[0] * v[1];
        return alpha == 1 ? both : both * make_const(both.dtype(), alpha);
      },
      s.at());
  std::vector<Tensor> inputs{sums, scale};
  if (bias) inputs.push_back(bias);
  return ops::elementwise(
      "scaled_product", inputs,
      [](const std::vector<Expr>& v) {
        const Expr y = cast(v[1].dtype(), v[0]) * v[1];
        return v.size() > 2 ? y + v[2] : y;
      },
      s.at());
}

std::vector<Value> matmul_integer(const NodeScope& s) { return {integer_matmul(s, {0, 1, 2, 3})}; }

std::vector<Value> conv_integer(const NodeScope& s) {
  return {integer_conv(s, {0, 1, 2, 3}, Tensor())};
}

// a, its scale and zero point; b, its scale and zero point; the scale and zero point of the result.
std::vector<Value> qlinear_matmul(const NodeScope& s) {
  return {requantized(s, integer_matmul(s, {0, 3, 2, 5}), {1, 4, 6}, 1, 0)};
}

// As QLinearMatMul, and a bias.
std::vector<Value> qlinear_conv(const NodeScope& s) {
  const Tensor sums = integer_conv(s, {0, 3, 2, 5}, s.optional_tensor(8));
  return {requantized(s, sums, {1, 4, 6}, 0, s.rank(0) - 2)};
}

// a, its scale and zero point; b, the same; a bias in the steps of the sums; the scale and zero point
// of the result. The zero point has the type of the result, which is of floats where it is left out; a
// scale divides these, too.
std::vector<Value> quantised_gemm(const NodeScope& s) {
  if (s.rank(0) != 2 || s.rank(3) != 2) s.fail("its operands are not matrices");
  const auto matrix = [&](int i, const char* flag) {
    return s.integer(flag, 0) != 0 ? ops::transpose(s.tensor(i), {1, 0}, s.at()) : s.tensor(i);
  };
  Tensor sums =
      integer_matmul(s, matrix(0, "transA"), matrix(3, "transB"), point(s, 2, 1), point(s, 5, 0));
  if (s.has(6)) sums = ops::add(sums, s.tensor(6), s.at());
  const double alpha = s.number("alpha", 1.0);
  const bool of_bytes = s.has(7) && s.has(8);
  if (of_bytes && alpha == 1) return {requantized(s, sums, {1, 4, 7}, 1, 0)};
  const Tensor y =
      scaled_sums(s, sums, parameter(s, 1, f32, 1), parameter(s, 4, f32, 0), alpha, {});
  if (!of_bytes) return {s.has(7) ? s.part("Div", {y, s.value(7)}) : Value(y)};
  return {s.part("QuantizeLinear", {y, s.value(7), s.value(8)})};
}

std::vector<Value> dynamic_matmul(const NodeScope& s) {
  const ByteMatrix b{s.tensor(1), s.tensor(2), point(s, 3, 0)};
  return {dynamic_product(s, s.tensor(0), b, s.optional_tensor(4))};
}

// a, b, their scales, their zero points, a bias.
std::vector<Value> matmul_to_float(const NodeScope& s) {
  return {scaled_sums(s, integer_matmul(s, {0, 1, 4, 5}), along(s, s.tensor(2), 1),
                      along(s, s.tensor(3), 0), 1, s.optional_tensor(6))};
}

}  // namespace

Tensor dynamic_product(const NodeScope& s, const Tensor& x, const ByteMatrix& b,
                       const Tensor& bias) {
  const Quantised a = dynamically_quantised(s, x);
  const Tensor sums = integer_matmul(s, a.bytes, b.bytes, ops::cast(a.zero, i32, s.at()), b.zero);
  const DataType type = a.scale.dtype();
  const Tensor scale = b.scale.dtype() == type ? b.scale : ops::cast(b.scale, type, s.at());
  return scaled_sums(s, sums, a.scale, along(s, scale, 0), 1, bias);
}

std::vector<OperatorEntry> microsoft_integer_product_operators() {
  return {{"DynamicQuantizeMatMul", dynamic_matmul},
          {"MatMulIntegerToFloat", matmul_to_float},
          {"QGemm", quantised_gemm}};
}

std::vector<OperatorEntry> integer_product_operators() {
  return {{"ConvInteger", conv_integer},
          {"MatMulInteger", matmul_integer},
          {"QLinearConv", qlinear_conv},
          {"QLinearMatMul", qlinear_matmul}};
}

}  // namespace heddle::onnx
