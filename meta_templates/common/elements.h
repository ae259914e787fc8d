// Numbers of elements and bytes.
#pragma once

#include "heddle/dsl/tensor.h"

namespace heddle::meta {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The number of results of `op`.
inline int64_t spatial_points(const Operation& op) {
  int64_t n = 1;
  for (const Axis& a : op.axes()) n *= a.extent();
  return n;
}

/// The number of results along the first `rank` axes of `op`.
inline int64_t leading_points(const Operation& op, size_t rank) {
  int64_t n = 1;
  for (size_t i = 0; i < rank; ++i) n *= op.axes()[i].extent();
  return n;
}

inline int64_t bytes_of(const Tensor& t) {
  int64_t n = t.dtype().bytes();
  for (int64_t e : t.extents()) n *= e;
  return n;
}

}  // namespace heddle::meta
