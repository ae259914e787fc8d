// Operators whose results depend on no element: constants, shapes, ranges.
#include <cmath>

#include "heddle/ops/elementwise.h"
#include "heddle/ops/transform.h"
#include "onnx/node_scope.h"

namespace heddle::onnx {
namespace {

// Constants of more elements than this are declared and not stored.
constexpr int64_t kMostStored = 1 << 16;

int64_t product_of(const NodeScope& s, const Extents& shape) {
  int64_t size = 1;
  for (const int64_t extent : shape) {
    if (extent < 0) s.fail("the extent " + std::to_string(extent) + " is negative");
    if (__builtin_mul_overflow(size, extent, &size)) s.fail("the result is too large");
  }
  return size;
}

std::vector<Value> constant(const NodeScope& s) {
  if (const AttributeValue* value = s.find("value")) {
    if (const NDArray* array = std::get_if<NDArray>(value)) return {s.constant(*array)};
    s.fail("attribute 'value' is not a tensor");
  }
  if (s.has_attribute("value_int"))
    return {s.constant(array_of_integers({s.integer("value_int")}, {}))};
  if (s.has_attribute("value_ints")) {
    const std::vector<int64_t> values = s.integers("value_ints");
    return {s.constant(array_of_integers(values, {static_cast<int64_t>(values.size())}))};
  }
  if (s.has_attribute("value_float"))
    return {s.constant(NDArray::full({}, f32, s.number("value_float")))};
  if (s.has_attribute("value_floats")) {
    const std::vector<float> values = s.numbers("value_floats");
    return {s.constant(NDArray::from(values, {static_cast<int64_t>(values.size())}))};
  }
  s.fail("it has no value of a supported kind");
}

std::vector<Value> constant_of_shape(const NodeScope& s) {
  const Extents shape = s.known_integers(0, "shape");
  NDArray value = NDArray::zeros({1}, f32);
  if (const AttributeValue* given = s.find("value")) {
    const NDArray* array = std::get_if<NDArray>(given);
    if (array == nullptr || array->size() != 1)
      s.fail("attribute 'value' is not a tensor of one element");
    value = *array;
  }
  if (product_of(s, shape) <= kMostStored)
    return {s.constant(NDArray::full(shape, value.dtype(), value.get(0)))};
  return {ops::full({shape.begin(), shape.end()}, value.get(0), value.dtype(), s.at())};
}

// `start` and `end` are positions of dimensions. Negative positions count from the back. Both are
// clamped.
std::vector<Value> shape(const NodeScope& s) {
  const Extents dims = s.shape(0);
  const auto rank = static_cast<int64_t>(dims.size());
  const auto place = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank); };
  const int64_t begin = place(s.integer("start", 0)), end = place(s.integer("end", rank));
  std::vector<int64_t> values;
  for (int64_t d = begin; d < end; ++d) values.push_back(dims[static_cast<size_t>(d)]);
  return {s.constant(array_of_integers(values, {static_cast<int64_t>(values.size())}))};
}

std::vector<Value> size(const NodeScope& s) {
  return {s.constant(array_of_integers({s.value(0).size()}, {}))};
}

std::vector<Value> range(const NodeScope& s) {
  const DataType type = s.dtype(0);
  const double start = s.known_number(0, "start"), limit = s.known_number(1, "limit");
  const double delta = s.known_number(2, "delta");
  if (delta == 0) s.fail("the delta is 0");
  const double count = std::max(0.0, std::ceil((limit - start) / delta));
  if (!(count <= 1e9)) s.fail("the range has more than a thousand million elements");
  if (type.is_integral()) {
    // Integers are declared, so that a start that varies with a size is one of the call.
    const auto first = static_cast<int64_t>(start), each = static_cast<int64_t>(delta);
    return {compute(
        Shape{static_cast<int64_t>(count)},
        [&](Axis i) { return cast(type, Expr(i) * each + first); }, "range", "range", s.at())};
  }
  NDArray array = NDArray::empty({static_cast<int64_t>(count)}, type);
  for (int64_t i = 0; i < array.size(); ++i) array.set(i, start + static_cast<double>(i) * delta);
  return {s.constant(array)};
}

std::vector<Value> eye_like(const NodeScope& s) {
  const DataType type =
      s.has_attribute("dtype")
          ? dtype_of(static_cast<int32_t>(s.integer("dtype")), "attribute 'dtype'")
          : s.dtype(0);
  const int64_t k = s.integer("k", 0);
  const Extents dims = s.shape(0);
  if (dims.size() != 2) s.fail("its input is not a matrix");
  return {compute(
      Shape{dims[0], dims[1]},
      [&](Axis i, Axis j) {
        return select(j - i == Expr(k), make_const(type, 1), make_const(type, 0));
      },
      "eye", "eye", s.at())};
}

}  // namespace

std::vector<OperatorEntry> constant_operators() {
  return {
      {"Constant", constant}, {"ConstantOfShape", constant_of_shape},
      {"EyeLike", eye_like},  {"Range", range},
      {"Shape", shape},       {"Size", size},
  };
}

}  // namespace heddle::onnx
