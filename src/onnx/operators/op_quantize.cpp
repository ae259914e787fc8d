// Conversion of numbers to 8-bit integers and back.
#include <cmath>

#include "heddle/ops/elementwise.h"
#include "heddle/ops/reduce.h"
#include "heddle/ops/transform.h"
#include "onnx/node_scope.h"
#include "onnx/operators/quantised.h"

namespace heddle::onnx {
namespace {

// A scale or zero point of blocks along the axis, one for each element.
Tensor of_blocks(const NodeScope& s, const Tensor& t, int64_t block) {
  const int axis = s.axis(s.integer("axis", 1), s.rank(0));
  Extents wanted = s.shape(0);
  int64_t& blocks = wanted[static_cast<size_t>(axis)];
  const int64_t extent = blocks;
  if (block > 0) blocks = (extent + block - 1) / block;
  if (block < 1 || t.extents() != wanted)
    s.fail("scales " + shape_text(t.extents()) + " are not those of blocks of " +
           std::to_string(block) + " along dimension " + std::to_string(axis) + " of " +
           shape_text(s.shape(0)));
  const Tensor each = ops::repeat(t, block, axis, s.at());
  if (each.extent(axis) == extent) return each;
  return ops::slice(each, {0}, {extent}, {axis}, {}, s.at());
}

// A scale or zero point, as the file has it, in a shape that broadcasts to x: one number, or one for each index
// of the axis.
Tensor along_axis(const NodeScope& s, int input) {
  const Tensor t = s.exact(input).tensor();
  if (const int64_t block = s.integer("block_size", 0); block != 0) return of_blocks(s, t, block);
  if (t.rank() > 1) s.fail("its scale is neither a number nor a row of numbers");
  if (t.size() == 1) return along(s, t, 0);  // whatever the axis is
  const int axis = s.axis(s.integer("axis", 1), s.rank(0));
  return along(s, t, s.rank(0) - axis - 1);
}

std::vector<Value> quantize(const NodeScope& s) {
  DataType type = u8;
  const auto wanted = static_cast<int32_t>(s.integer("output_dtype", 0));
  if (four_bits_of(wanted))
    type = *four_bits_of(wanted);
  else if (wanted != 0)
    type = dtype_of(wanted, "attribute 'output_dtype'");
  const bool four = four_bits_of(wanted) || (s.has(2) && s.exact(2).is_of_four_bits());
  if (s.has(2)) type = s.dtype(2);
  if (!type.is_integral() && !type.is_float8())
    s.fail("to " + to_string(type) + " is not supported");
  if (type.is_float8() && s.integer("saturate", 1) == 0)
    s.fail("it converts to " + to_string(type) + " without saturation, which is not supported");
  std::vector<Tensor> inputs{s.tensor(0), along_axis(s, 1)};
  if (s.has(2)) inputs.push_back(along_axis(s, 2));
  const bool whole = s.dtype(0).is_integral();
  const int bits = four ? 4 : type.bits;
  const Tensor y = ops::elementwise(
      "quantize", inputs,
      [&](const std::vector<Expr>& v) {
        const DataType wide = whole || v[1].dtype().bits < 32 ? f32 : v[1].dtype();
        Expr q = cast(wide, v[0]) / cast(wide, v[1]);
        if (type.is_integral()) q = round(q);
        if (v.size() > 2) q = q + cast(wide, v[2]);
        return type.is_integral() ? saturated(q, type, bits) : cast(type, q);
      },
      s.at());
  return {four ? Value::of_four_bits(y) : Value(y)};
}

// The type of what bytes stand for. They have their scale in f32 also where f32 is narrower, and are rounded
// after it; so they stay bytes of one scale to what looks for these. (Scales that may exceed the range of the
// type are left to the importer.)
DataType type_of_numbers(const NodeScope& s) {
  const DataType type = s.exact(1).dtype(), narrow = s.options().precision;
  const bool bytes = s.dtype(0).is_integral() && s.dtype(0).bits == 8;
  if (type != f32 || !bytes || !s.exact(1).known()) return type;
  constexpr double kMostScale = 256;  // 255 of it are a number of f16
  const NDArray& scales = s.exact(1).array();
  for (int64_t i = 0; i < scales.size(); ++i) {
    if (std::abs(scales.get(i)) > kMostScale) return type;
  }
  return narrow;
}

std::vector<Value> dequantize(const NodeScope& s) {
  std::vector<Tensor> inputs{s.tensor(0), along_axis(s, 1)};
  if (!is_zero(s, 2)) inputs.push_back(along_axis(s, 2));
  const DataType type = s.exact(1).dtype(), numbers = type_of_numbers(s);
  return {ops::elementwise(
      "dequantize", inputs,
      [&](const std::vector<Expr>& v) {
        const DataType wide = v[0].dtype().is_float() ? type : i32;
        Expr x = cast(wide, v[0]);
        if (v.size() > 2) x = x - cast(wide, v[2]);
        return cast(numbers, cast(type, x) * v[1]);
      },
      s.at())};
}

std::vector<Value> dynamic_quantize(const NodeScope& s) {
  const Quantised q = dynamically_quantised(s, s.tensor(0));
  return {q.bytes, q.scale, q.zero};
}

}  // namespace

// The scale has the type of the values; it is rounded before it divides, so that readers multiply by
// what divided.
Quantised dynamically_quantised(const NodeScope& s, const Tensor& x) {
  const DataType type = x.dtype();
  const Tensor low = ops::min(x, {}, false, s.at()), high = ops::max(x, {}, false, s.at());
  const auto number = [](double v) { return make_const(f32, v); };
  const Tensor scale = ops::elementwise(
      "quantize_scale", {low, high},
      [&](const std::vector<Expr>& v) {
        const Expr from = min(cast(f32, v[0]), number(0)), to = max(cast(f32, v[1]), number(0));
        const Expr step = cast(type, (to - from) / number(255));
        const Expr none = make_const(type, 0);  // where all values are 0
        return select(step == none, make_const(type, 1), step);
      },
      s.at());
  const Tensor point = ops::elementwise(
      "quantize_zero", {low, scale},
      [&](const std::vector<Expr>& v) {
        return saturated(round(-min(cast(f32, v[0]), number(0)) / cast(f32, v[1])), u8);
      },
      s.at());
  const Tensor y = ops::elementwise(
      "quantize", {x, scale, point},
      [&](const std::vector<Expr>& v) {
        return saturated(round(cast(f32, v[0]) / cast(f32, v[1])) + cast(f32, v[2]), u8);
      },
      s.at());
  return {y, scale, point};
}

std::vector<OperatorEntry> quantize_operators() {
  return {{"DequantizeLinear", dequantize},
          {"DynamicQuantizeLinear", dynamic_quantize},
          {"QuantizeLinear", quantize}};
}

std::vector<OperatorEntry> microsoft_quantise_operators() {
  return {{"DequantizeLinear", dequantize}, {"QuantizeLinear", quantize}};
}

}  // namespace heddle::onnx
