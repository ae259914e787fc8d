// The range of values of a tensor, from the ranges of the inputs.
#pragma once

#include <limits>
#include <unordered_map>

#include "heddle/dag/compute_dag.h"

namespace heddle::dag {

/// All values except NaN lie in [lo, hi].
struct ValueRange {
  double lo = -std::numeric_limits<double>::infinity();
  double hi = std::numeric_limits<double>::infinity();
};

/// The smallest range that holds both.
ValueRange hull(const ValueRange& a, const ValueRange& b);

/// Interval arithmetic from placeholders as NDArray::random fills them: exponentials and their sums
/// are positive, squares and activations are not negative. Ranges grow with every layer, but signs
/// and the bounds of bounded functions remain.
class ValueRanges {
 public:
  explicit ValueRanges(const ComputeDag& dag);
  ValueRange of(const Tensor& t) const;

 private:
  std::unordered_map<const BufferNode*, ValueRange> known_;
};

/// The range of NDArray::random for a type.
ValueRange random_range(DataType t);

}  // namespace heddle::dag
