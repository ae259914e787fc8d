#include "measure/task/timing.h"

#include <algorithm>
#include <cmath>

namespace heddle::measuring {
namespace {

// Seconds of the shortest sample. It is long enough to average over short disturbances.
constexpr double kShortestSample = 300e-6;
// A candidate that is slower than the best by this factor is settled by its fastest sample, because
// the cost model needs its order of magnitude only.
constexpr double kClearlySlower = 1.15;
constexpr double kSlower = 1.05;  // above the best by this factor, half of the samples suffice

// Calls so much slower than the cut-off need no further ones. The first proves less than others: a
// runner that has just started pays in it for pages, caches and a thread on its way to a core
// (matmul 512^3 on two threads: 5.4 ms of 1.7).
constexpr double kHopeless = 1.5;
constexpr double kHopelessSeconds = 3e-3;
constexpr double kColdSeconds = 8e-3;

double mean_seconds(FunctionRef<double()> now_s, int64_t calls, FunctionRef<void()> call) {
  const double begin = now_s();
  for (int64_t i = 0; i < calls; ++i) call();
  return (now_s() - begin) / static_cast<double>(calls);
}

}  // namespace

MedianInterval median_interval(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const size_t n = samples.size();
  const double median = n % 2 == 1 ? samples[n / 2] : 0.5 * (samples[n / 2 - 1] + samples[n / 2]);
  // The number of samples below the median is binomial (n, 1/2). The interval is two standard
  // deviations around n / 2.
  const auto count = static_cast<double>(n);
  const double below = std::floor(0.5 * count - 0.98 * std::sqrt(count));
  const size_t low = below < 1 ? 0 : static_cast<size_t>(below) - 1;
  const double width = samples[n - 1 - low] - samples[low];
  return {median, median > 0 ? width / median : 0};
}

int64_t calls_per_sample(double call_seconds, double seconds) {
  if (call_seconds >= seconds) return 1;
  return static_cast<int64_t>(std::min(std::ceil(seconds / std::max(call_seconds, 1e-9)), 1e6));
}

Timing time_calls(const MeasureProtocol& protocol, double best_seconds, FunctionRef<void()> call,
                  const std::function<void()>& before_sample, FunctionRef<double()> now_s) {
  const auto time_once = [&](int64_t calls) { return mean_seconds(now_s, calls, call); };
  Timing result;
  const double first = time_once(1);
  const double limit = protocol.cutoff > 0 ? protocol.cutoff * best_seconds
                                           : std::numeric_limits<double>::infinity();
  if (first - kColdSeconds > kHopeless * limit) return {{first}, true};
  if (first > kHopeless * limit && first > kHopelessSeconds) {
    const double second = time_once(1);
    if (second > kHopeless * limit) return {{second}, true};
  }
  int64_t calls = 1;
  if (!before_sample) {
    calls = calls_per_sample(first, kShortestSample);
    // The first call of a short kernel consists mostly of cache misses. Several warm calls show how
    // long one takes.
    while (calls > 1) {
      const double warm = time_once(calls);
      const int64_t wanted = calls_per_sample(warm, kShortestSample);
      if (wanted <= 2 * calls) break;
      calls = wanted;
    }
  }
  double total = 0;
  while (static_cast<int>(result.seconds.size()) < std::max(1, protocol.max_repeats)) {
    if (before_sample) before_sample();
    const double sample = time_once(calls);
    result.seconds.push_back(sample);
    total += sample * static_cast<double>(calls);
    // Two samples are needed unless the first call was slow enough itself, because a thread may
    // still have been moving to its core.
    const size_t proof = first - kColdSeconds > limit ? 1 : 2;
    if (first > limit && result.seconds.size() == proof && sample > limit &&
        result.seconds[0] > limit) {
      result.cut_off = true;
      break;
    }
    if (static_cast<int>(result.seconds.size()) < protocol.min_repeats) continue;
    if (total >= protocol.max_seconds) break;
    if (total < protocol.min_seconds) continue;
    const double fastest = *std::min_element(result.seconds.begin(), result.seconds.end());
    if (fastest > kClearlySlower * best_seconds) break;
    const auto count = static_cast<int>(result.seconds.size());
    if (fastest > kSlower * best_seconds && 2 * count >= protocol.max_repeats) break;
    if (median_interval(result.seconds).relative_width <= protocol.relative_ci) break;
  }
  return result;
}

}  // namespace heddle::measuring
