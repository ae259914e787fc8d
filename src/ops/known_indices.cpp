#include "ops/known_indices.h"

#include "dsl/known_values.h"

namespace heddle::ops::impl {
namespace {

/// " at [1, 2] of 'indices'"; "" for the only element of a tensor.
std::string place(const Tensor& indices, int64_t flat) {
  const Dims dims = indices.extents();
  if (product(dims) == 1) return "";
  std::string text;
  for (size_t d = dims.size(); d-- > 0;) {
    text = std::to_string(flat % dims[d]) + (text.empty() ? "" : ", ") + text;
    flat /= dims[d];
  }
  return " at [" + text + "] of '" + indices.name() + "'";
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
  const std::optional<std::vector<int64_t>> values = known_integers(indices);
  if (!values) return;
  for (size_t i = 0; i < values->size() && !extents.empty(); ++i) {
    const int64_t index = (*values)[i], extent = extents[i % extents.size()];
    if (index >= -extent && index < extent) continue;
    fail(call,
         "index " + std::to_string(index) + place(indices, static_cast<int64_t>(i)) +
             " is out of range: '" + x.name() + "' " + text(x.extents()) + " has " +
             std::to_string(extent) + " positions there",
         "an index is in [" + std::to_string(-extent) + ", " + std::to_string(extent - 1) + "]");
  }
}

}  // namespace heddle::ops::impl
