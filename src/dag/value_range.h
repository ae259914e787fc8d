// What values a tensor can have, where those of the inputs are known.
#pragma once

#include <limits>
#include <unordered_map>

#include "heddle/dag/compute_dag.h"

namespace heddle::dag {

/// All values lie in [lo, hi]; NaNs aside.
struct ValueRange {
  double lo = -std::numeric_limits<double>::infinity();
  double hi = std::numeric_limits<double>::infinity();
};

/// The smallest range that holds both.
ValueRange hull(const ValueRange& a, const ValueRange& b);

/// By interval arithmetic from placeholders as NDArray::random fills them: exponentials and their
/// sums are positive, squares and activations not negative. Wide ranges grow with every layer; what
/// stays is the sign, and what a bounded function bounds.
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
