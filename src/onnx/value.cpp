#include "onnx/value.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
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

/// Integers that grow evenly along each dimension: the first, and how much more the next is.
struct EvenGrowth {
  int64_t first = 0;
  std::vector<int64_t> each;
};

std::optional<EvenGrowth> growth_of(const NDArray& array) {
  if ((array.dtype() != i64 && array.dtype() != i32) || array.size() == 0) return {};
  constexpr double kMost = 1 << 30;  // the formula overflows nowhere
  double most = std::abs(array.get(0));
  EvenGrowth g{integer_at(array, 0), std::vector<int64_t>(array.shape().size(), 0)};
  int64_t stride = array.size();
  for (size_t d = 0; d < g.each.size(); ++d) {
    stride /= array.shape()[d];
    if (array.shape()[d] <= 1) continue;
    most += std::abs(array.get(stride) - array.get(0)) * static_cast<double>(array.shape()[d] - 1);
    if (most > kMost) return {};  // before the differences overflow
    g.each[d] = integer_at(array, stride) - g.first;
  }
  if (most > kMost) return {};
  for (int64_t i = 0; i < array.size(); ++i) {
    int64_t value = g.first, rest = i;
    for (size_t d = g.each.size(); d-- > 0; rest /= array.shape()[d])
      value += rest % array.shape()[d] * g.each[d];
    if (value != integer_at(array, i)) return {};
  }
  return g;
}

}  // namespace

Value Value::sequence(std::vector<Value> elements) {
  Value value;
  value.elements_ = std::make_shared<const std::vector<Value>>(std::move(elements));
  return value;
}

Value Value::of_four_bits(Tensor tensor) {
  Value value(std::move(tensor));
  value.four_bits_ = true;
  return value;
}

Value Value::nothing() {
  Value value;
  value.nothing_ = true;
  return value;
}

Value Value::with_rows(const Tensor& tensor, OpenRows rows) {
  Value value(tensor);
  value.rows_ = std::make_shared<const OpenRows>(std::move(rows));
  return value;
}

Value Value::map_arrays(FunctionRef<Value(const Value&)> f) const {
  if (is_array()) {
    Value mapped = f(*this);
    mapped.rows_ = rows_;
    return mapped;
  }
  if (!is_sequence()) return *this;
  std::vector<Value> mapped;
  for (const Value& element : elements()) mapped.push_back(element.map_arrays(f));
  return sequence(std::move(mapped));
}

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

bool Value::grows_evenly() const {
  if (!known()) return false;
  const std::optional<EvenGrowth> g = growth_of(array());
  return g && std::ranges::any_of(g->each, [](int64_t e) { return e != 0; });
}

Value Value::as_formula() const {
  constant_->formula = true;
  return *this;
}

Tensor Value::tensor() const {
  if (!known()) return tensor_;
  Constant& c = *constant_;
  if (c.tensor) return c.tensor;
  if (c.array.size() == 0) {
    c.tensor = compute(
        to_shape(c.array.shape()),
        [&](const std::vector<Axis>&) { return make_const(c.array.dtype(), 0); }, c.name,
        "constant", Where{});
  } else if (is_immediate()) {
    c.tensor = compute(
        to_shape(c.array.shape()), [&](const std::vector<Axis>&) { return immediate(); }, c.name,
        "constant", Where{});
  } else if (c.formula) {
    const EvenGrowth g = *growth_of(c.array);
    c.tensor = compute(
        to_shape(c.array.shape()),
        [&](const std::vector<Axis>& i) {
          Expr value(g.first);
          for (size_t d = 0; d < i.size(); ++d)
            if (g.each[d] != 0) value = value + i[d] * Expr(g.each[d]);
          return heddle::cast(c.array.dtype(), value);
        },
        c.name, "constant", Where{});
  } else {
    c.tensor = constant(c.array, c.name, Where{});
  }
  return c.tensor;
}

Value ConstantPool::add(NDArray array, std::string name, bool four_bits) {
  const auto make = [&] {
    return std::make_shared<Constant>(Constant{std::move(name), array, {}, four_bits});
  };
  if (array.size() == 0) return Value(constants_.emplace_back(make()));
  std::shared_ptr<Constant>& known = by_data_[array.address()];
  const bool same = known != nullptr && known->array.dtype() == array.dtype() &&
                    known->array.shape() == array.shape();
  if (!same) known = constants_.emplace_back(make());
  return Value(known);
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
