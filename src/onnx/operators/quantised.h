// What operators on quantised tensors share.
#pragma once

#include <cmath>
#include <vector>

#include "heddle/ops/transform.h"
#include "onnx/node_scope.h"

namespace heddle::onnx {

/// `value`, or the nearest number of the integer type `type`, or of one of fewer bits.
inline Expr saturated(const Expr& value, DataType type, int width = 0) {
  if (width == 0) width = type.bits;
  const int bits = type.is_uint() ? width : width - 1;
  const Expr low = make_const(value.dtype(), type.is_uint() ? 0 : -std::ldexp(1.0, bits));
  const Expr high = make_const(value.dtype(), std::ldexp(1.0, bits) - 1);
  return cast(type, min(max(value, low), high));
}

/// Bytes of u8, and the scale and zero point of all.
struct Quantised {
  Tensor bytes, scale, zero;
};
/// x by the range of its values, extended to contain 0.
Quantised dynamically_quantised(const NodeScope& s, const Tensor& x);

/// Weights of bytes (K, N) with one scale or one for each column, and zero points in i32, undefined
/// where they are 0.
struct ByteMatrix {
  Tensor bytes, scale, zero;
};
/// The product with x, which is quantised by its range in each call, in floats; the bias may be undefined.
Tensor dynamic_product(const NodeScope& s, const Tensor& x, const ByteMatrix& b,
                       const Tensor& bias);

/// A row of numbers in a shape that broadcasts along a dimension with `after` dimensions behind it;
/// a single number has no dimensions.
inline Tensor along(const NodeScope& s, const Tensor& row, int after) {
  if (row.size() == 1) return ops::reshape(row, {}, s.at());
  if (row.rank() != 1) return row;
  std::vector<int64_t> shape(static_cast<size_t>(after) + 1, 1);
  shape[0] = row.extent(0);
  return ops::reshape(row, shape, s.at());
}

/// Whether input `i`, a zero point, is left out or known to be 0 throughout.
inline bool is_zero(const NodeScope& s, int i) {
  if (!s.has(i)) return true;
  if (!s.value(i).known()) return false;
  const NDArray& array = s.value(i).array();
  for (int64_t at = 0; at < array.size(); ++at) {
    if (array.get(at) != 0) return false;
  }
  return true;
}

}  // namespace heddle::onnx
