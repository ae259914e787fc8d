// Time, measured on the steady clock.
//
//   Measurement m = measure([&] { kernel(a, b, c); });
//   std::cout << m.median_s << " +- " << m.spread();
#pragma once

#include <chrono>
#include <vector>

#include "heddle/support/function_ref.h"

namespace heddle {

/// A stopwatch that starts when it is made. It uses a monotonic clock.
class Timer {
 public:
  Timer() : start_(std::chrono::steady_clock::now()) {}
  double elapsed_s() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_;
};

/// Samples of the time of a call, in seconds.
struct Measurement {
  double median_s = 0;  // all times are times of one call
  double min_s = 0;
  std::vector<double> samples_s = {};  // sorted
  int calls_per_sample = 1;

  /// (third quartile - first quartile) / median, a measure of the uncertainty of the median.
  double spread() const;
};

/// Calls fn once to warm up, then takes samples until they add up to min_time_s or there are
/// max_repeats of them (at least one). Calls that are too short for the clock are timed in batches.
Measurement measure(FunctionRef<void()> fn, double min_time_s = 0.1, int max_repeats = 1000);

}  // namespace heddle
