#include "dsl/known_values.h"

#include "heddle/runtime/ndarray.h"

namespace heddle {

std::optional<std::vector<int64_t>> known_integers(const Tensor& tensor) {
  const Operation& op = *tensor.op();
  if (!op.is_placeholder()) {
    const int64_t* one = as_int(op.bodies()[static_cast<size_t>(tensor.index())]);
    if (one == nullptr) return std::nullopt;
    return std::vector<int64_t>{*one};
  }
  const NDArray* array = op.data();
  if (array == nullptr || !array->dtype().is_integral()) return std::nullopt;
  std::vector<int64_t> values;
  for (int64_t i = 0; i < array->size(); ++i) {
    const bool wide = array->dtype().bits == 64 && !array->dtype().is_bool();
    values.push_back(wide ? array->data<int64_t>()[i] : static_cast<int64_t>(array->get(i)));
  }
  return values;
}

}  // namespace heddle
