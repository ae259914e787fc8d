// The timing protocol, independent of processes: the number of samples of a candidate.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/measure/measure.h"
#include "heddle/support/function_ref.h"
#include "runtime/kernel/timer_clock.h"

namespace heddle::measuring {

/// The median of `samples`, and how wide the interval is that holds it with 95 % confidence (by
/// order statistics; the whole range below six samples), relative to the median.
struct MedianInterval {
  double median = 0;
  double relative_width = 0;
};
MedianInterval median_interval(std::vector<double> samples);

struct Timing {
  std::vector<double> seconds;  ///< one sample each, seconds of one call
  bool cut_off = false;
};

/// Times `call` by the protocol. The first call warms up and is timed: its time determines how many
/// calls make a sample, and whether the candidate is cut off. `before_sample` (flushing the cache)
/// is not timed. With it every sample is a single call. `now_s` is the clock, in seconds.
Timing time_calls(const MeasureProtocol& protocol, double best_seconds, FunctionRef<void()> call,
                  const std::function<void()>& before_sample = {},
                  FunctionRef<double()> now_s = internal::steady_seconds);

/// The number of calls that make one sample of at least `seconds`, for calls of `call_seconds`.
int64_t calls_per_sample(double call_seconds, double seconds);

}  // namespace heddle::measuring
