#include "heddle/runtime/timer.h"

#include <algorithm>
#include <cmath>

#include "runtime/kernel/timer_clock.h"

namespace heddle {
namespace {

// Seconds of the shortest sample. The two clock reads (about 50 ns) are then less than one part in
// two hundred.
constexpr double kShortestSample = 10e-6;

double seconds_of(FunctionRef<double()> now_s, FunctionRef<void()> fn, int calls) {
  const double begin = now_s();
  for (int i = 0; i < calls; ++i) fn();
  return now_s() - begin;
}

}  // namespace

double Measurement::spread() const {
  if (samples_s.size() < 2 || median_s <= 0) return 0;
  return (samples_s[samples_s.size() * 3 / 4] - samples_s[samples_s.size() / 4]) / median_s;
}

double internal::steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Measurement measure(FunctionRef<void()> fn, double min_time_s, int max_repeats) {
  return internal::measure_by(internal::steady_seconds, fn, min_time_s, max_repeats);
}

Measurement internal::measure_by(FunctionRef<double()> now_s, FunctionRef<void()> fn,
                                 double min_time_s, int max_repeats) {
  fn();
  Measurement result;
  // The batch grows until it lasts long enough. This also warms the caches up.
  for (int calls = 1;;) {
    const double elapsed = seconds_of(now_s, fn, calls);
    result.calls_per_sample = calls;
    if (elapsed >= kShortestSample || calls >= (1 << 20)) {
      // A slow call is kept as a sample; repeating it would spend the budget twice.
      if (calls == 1) result.samples_s.push_back(elapsed);
      break;
    }
    const double wanted = std::ceil(1.5 * kShortestSample / std::max(elapsed / calls, 1e-10));
    calls = std::max(calls * 2, static_cast<int>(std::min(wanted, double{1 << 20})));
  }
  double total = result.samples_s.empty() ? 0 : result.samples_s[0];
  while (result.samples_s.empty() ||
         (total < min_time_s && static_cast<int>(result.samples_s.size()) < max_repeats)) {
    const double elapsed = seconds_of(now_s, fn, result.calls_per_sample);
    total += elapsed;
    result.samples_s.push_back(elapsed / result.calls_per_sample);
  }
  std::sort(result.samples_s.begin(), result.samples_s.end());
  const std::size_t n = result.samples_s.size();
  result.min_s = result.samples_s[0];
  result.median_s = n % 2 == 1 ? result.samples_s[n / 2]
                               : 0.5 * (result.samples_s[n / 2 - 1] + result.samples_s[n / 2]);
  return result;
}

}  // namespace heddle
