// What the lessons about the handwritten digits share: sizes, and how results are compared.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace heddle::tutorials {

inline constexpr int64_t kBatch = 128, kSide = 8, kPixels = kSide * kSide, kClasses = 10;

/// The class of each image: that of its largest logit.
inline std::vector<int32_t> largest_of_each_row(const std::vector<float>& logits) {
  std::vector<int32_t> best;
  for (auto row = logits.begin(); row != logits.end(); row += kClasses) {
    best.push_back(static_cast<int32_t>(std::max_element(row, row + kClasses) - row));
  }
  return best;
}

/// The largest difference of a row's logits, relative to the largest logit of that row; of all rows
/// the worst.
inline double worst_relative_error(const std::vector<float>& got, const std::vector<float>& want) {
  double worst = 0;
  for (size_t row = 0; row < want.size(); row += kClasses) {
    double difference = 0, largest = 0;
    for (size_t i = row; i < row + kClasses; ++i) {
      // NaN is larger than any error, which std::max would not see.
      if (std::isnan(got[i])) return INFINITY;
      difference = std::max(difference, std::abs(double{got[i]} - want[i]));
      largest = std::max(largest, std::abs(double{want[i]}));
    }
    worst = std::max(worst, difference / largest);
  }
  return worst;
}

inline int count_equal(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  int same = 0;
  for (size_t i = 0; i < a.size(); ++i) same += a[i] == b[i] ? 1 : 0;
  return same;
}

}  // namespace heddle::tutorials
