#include "ops/known_indices.h"

#include "heddle/runtime/ndarray.h"

namespace heddle::ops::impl {
namespace {

// 64-bit integers above 2^53 are rounded, which is far out of range all the same.
int64_t integer_at(const NDArray& array, int64_t i) {
  if (array.dtype() == i64) return array.data<int64_t>()[i];
  return static_cast<int64_t>(array.get(i));
}

std::string place(const NDArray& array, int64_t flat) {
  std::string text;
  for (size_t d = array.shape().size(); d-- > 0;) {
    const int64_t extent = array.shape()[d];
    text = std::to_string(flat % extent) + (text.empty() ? "" : ", ") + text;
    flat /= extent;
  }
  return "[" + text + "]";
}

}  // namespace

void check_indices(const Call& call, const Tensor& indices, int rank) {
  check_rank(call, indices, "indices", rank);
  const DataType t = indices.dtype();
  if (!t.is_integral() || t.is_bool())
    fail(call, "argument 'indices' is " + describe(indices) + ", and needs integers");
}

void check_known_indices(const Call& call, const Tensor& x, const Tensor& indices,
                         const Dims& extents) {
  const auto check = [&](int64_t index, int64_t extent, const std::string& where) {
    if (index >= -extent && index < extent) return;
    fail(call,
         "index " + std::to_string(index) + where + " is out of range: '" + x.name() + "' " +
             text(x.extents()) + " has " + std::to_string(extent) + " positions there",
         "an index is in [" + std::to_string(-extent) + ", " + std::to_string(extent - 1) + "]");
  };
  const Operation& op = *indices.op();
  if (!op.is_placeholder()) {
    const int64_t* one = op.num_outputs() == 1 ? as_int(op.bodies()[0]) : nullptr;
    if (one != nullptr && extents.size() == 1) check(*one, extents[0], "");
    return;
  }
  const NDArray* values = op.data();
  if (values == nullptr || extents.empty()) return;
  for (int64_t i = 0; i < values->size(); ++i)
    check(integer_at(*values, i), extents[static_cast<size_t>(i) % extents.size()],
          " at " + place(*values, i) + " of '" + indices.name() + "'");
}

}  // namespace heddle::ops::impl
