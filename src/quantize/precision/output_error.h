// How far outputs are from those in f32.
#pragma once

#include "heddle/runtime/ndarray.h"

namespace heddle::quantize {

/// The error of an output over several calls.
class OutputError {
 public:
  void add(const NDArray& got, const NDArray& want);
  /// The largest difference over the largest value.
  double value() const;

 private:
  double difference_ = 0, largest_ = 0;
};

}  // namespace heddle::quantize
