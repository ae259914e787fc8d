// The dimensions of a reduction, and the mapping from positions of the result to elements of x.
#pragma once

#include "ops/common.h"

namespace heddle::ops::impl {

struct ReductionPlan {
  ReductionPlan(const Call& call, const Tensor& x, const std::vector<int>& axes, bool keepdims);

  Dims dims;               ///< shape of the result
  std::vector<Axis> over;  ///< the reduce axes
  int64_t count = 1;       ///< number of elements that are reduced to one
  bool keepdims;
  std::vector<bool> reduced;  ///< whether each dimension of x is reduced

  /// The indices of x at position `at` of the result and the reduce axes.
  std::vector<Expr> source(const std::vector<Axis>& at) const;
  /// The indices of the result that belong to position `at` of x.
  std::vector<Expr> target(const std::vector<Axis>& at) const;
};

}  // namespace heddle::ops::impl
