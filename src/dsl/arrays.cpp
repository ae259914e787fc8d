#include "heddle/dsl/arrays.h"

#include <utility>

namespace heddle {

Tensor constant(NDArray values, std::string name, Where where) {
  if (!values.defined()) {
    throw_user_error("constant '" + name + "' is given an array that was never assigned", where);
  }
  if (!values.device().is_cpu()) {
    throw_user_error("constant '" + name + "' is given " + describe(values), where,
                     "pass its to_host(): a kernel copies constants to where it runs");
  }
  const Extents extents = values.extents();
  const DataType dtype = values.dtype();
  return Operation::make_placeholder(Shape(extents.begin(), extents.end()), dtype, std::move(name),
                                     true, where,
                                     std::make_shared<const NDArray>(std::move(values)))
      ->output(0);
}

NDArray empty_like(const Tensor& t) { return NDArray::empty(t.extents(), t.dtype()); }
NDArray zeros_like(const Tensor& t) { return NDArray::zeros(t.extents(), t.dtype()); }
NDArray full_like(const Tensor& t, double value) {
  return NDArray::full(t.extents(), t.dtype(), value);
}
NDArray random_like(const Tensor& t, std::uint64_t seed) {
  return NDArray::random(t.extents(), t.dtype(), seed);
}

}  // namespace heddle
