// The distance of two amounts on a logarithmic scale.
#pragma once

#include <cmath>
#include <limits>

namespace heddle::records {

/// |log2(a/b)|: 1 where one is twice the other. Infinity where only one of them is positive.
inline double log_ratio(double a, double b) {
  if (a == b) return 0;
  if (!(a > 0) || !(b > 0)) return std::numeric_limits<double>::infinity();
  return std::abs(std::log2(a / b));
}

}  // namespace heddle::records
