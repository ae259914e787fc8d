// The range of a tensor, from its values on samples, and the scale that follows from it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "heddle/quantize/quantize.h"

namespace heddle::quantize {

/// The values of one tensor that were seen. 0 counts as seen: it must be exact in bytes, because
/// convolutions pad by it.
class SeenValues {
 public:
  /// First call for all samples: the least and the largest value. A value that is not finite is a
  /// User error that names `tensor`.
  void widen(const NDArray& values, const std::string& tensor);
  /// Then for all samples again, where the method needs it: a histogram of distances from 0.
  void count(const NDArray& values);
  std::pair<double, double> range(const QuantizeOptions& options) const;

 private:
  double percentile(double percent) const;
  double least_divergence() const;

  float low_ = 0, high_ = 0;
  std::vector<uint64_t> bins_;
};

/// How values become bytes.
struct Scale {
  float scale = 1;
  int64_t zero = 0;
  DataType dtype = u8;

  /// The value after rounding to a byte and back.
  double rounded(double value) const;
};
/// The scale of a range that contains 0.
Scale scale_of(const std::pair<double, double>& range, DataType dtype);

/// Signal and noise of values beside those that stand for them.
struct Noise {
  double signal = 0, noise = 0, largest = 0, largest_signal = 0;
  void add(double value, double other);
  double snr() const;  ///< in dB
};

}  // namespace heddle::quantize
