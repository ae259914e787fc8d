#include "onnx/value.h"

#include <cstring>
#include <utility>

#include "heddle/dsl/arrays.h"
#include "heddle/support/error.h"

namespace heddle::onnx {
namespace {

Shape to_shape(const Extents& extents) { return {extents.begin(), extents.end()}; }

int64_t integer_at(const NDArray& array, int64_t i) {
  const DataType t = array.dtype();
  if (t == i64) return array.data<int64_t>()[i];
  if (t == u64) return static_cast<int64_t>(array.data<uint64_t>()[i]);
  return static_cast<int64_t>(array.get(i));  // exact, because the type has at most 32 bits
}

}  // namespace

int64_t Value::size() const {
  int64_t size = 1;
  for (const int64_t extent : shape()) size *= extent;
  return size;
}

Expr Value::immediate() const {
  const DataType t = dtype();
  if (t.is_float()) return make_const(t, array().get(0));
  return heddle::cast(t, Expr(integer_at(array(), 0)));
}

Tensor Value::tensor() const {
  if (!known()) return tensor_;
  Constant& c = *constant_;
  if (c.tensor) return c.tensor;
  if (c.array.size() == 0) throw_user_error("'" + c.name + "' has no elements");
  if (is_immediate()) {
    c.tensor = compute(
        to_shape(c.array.shape()), [&](const std::vector<Axis>&) { return immediate(); }, c.name,
        "constant", Where{});
  } else {
    c.tensor = constant(c.array, c.name, Where{});
  }
  return c.tensor;
}

Value ConstantPool::add(NDArray array, std::string name) {
  constants_.push_back(std::make_shared<Constant>(Constant{std::move(name), std::move(array), {}}));
  return Value(constants_.back());
}

std::vector<int64_t> integers_of(const NDArray& array) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < array.size(); ++i) values.push_back(integer_at(array, i));
  return values;
}

NDArray array_of_integers(const std::vector<int64_t>& values, Extents shape) {
  NDArray array = NDArray::empty(std::move(shape), i64);
  if (!values.empty()) std::memcpy(array.data(), values.data(), values.size() * sizeof(int64_t));
  return array;
}

}  // namespace heddle::onnx
