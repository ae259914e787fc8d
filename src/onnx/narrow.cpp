#include "onnx/narrow.h"

#include <algorithm>
#include <cmath>

#include "heddle/ops/elementwise.h"

namespace heddle::onnx {
namespace {

double largest(DataType type) { return type == f16 ? 65504 : type == bf16 ? 0x1.fep127 : INFINITY; }

}  // namespace

double narrowed(double value, DataType type) {
  return std::isfinite(value) ? std::clamp(value, -largest(type), largest(type)) : value;
}

NDArray narrowed(const NDArray& array, DataType type) {
  const float* given = array.data<float>();
  const auto most = static_cast<float>(largest(type));
  if (std::all_of(given, given + array.size(), [&](float v) { return !(std::abs(v) > most); }))
    return array.cast(type);
  const NDArray within = array.copy();
  auto* values = within.data<float>();
  for (int64_t i = 0; i < within.size(); ++i)
    values[i] = static_cast<float>(narrowed(static_cast<double>(values[i]), type));
  return within.cast(type);
}

Tensor narrowed(const Tensor& tensor, DataType type) {
  const Expr most = make_const(f32, largest(type));
  return ops::elementwise(
      "cast", {tensor},
      [&](const std::vector<Expr>& x) {
        const Expr within = max(min(x[0], most), -most);
        return cast(type, select(isinf(x[0]), x[0], within));
      },
      Where{});
}

}  // namespace heddle::onnx
