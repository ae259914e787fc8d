// Times of several functions that compute the same, and the sizes at which families are compared.
#pragma once

#include <algorithm>
#include <cmath>
#include <ctime>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "heddle/dsl/dim.h"
#include "heddle/support/rng.h"
#include "peers/interleave.h"

namespace heddle::bench {

/// Of one call of each: the least median of several turns on the clock.
inline std::vector<double> times_on_the_clock(const std::vector<std::function<void()>>& runs) {
  std::vector<peers::TimedCase> cases;
  for (const auto& run : runs) cases.push_back({"", run});
  peers::InterleaveOptions timing;
  timing.max_rounds = 15;
  std::vector<double> seconds;
  for (const peers::CaseTimes& t : peers::time_interleaved(cases, timing))
    seconds.push_back(t.median_seconds);
  return seconds;
}

/// Of one call of each: processor time, for one thread on a machine with other load. The lower
/// quartile is taken, because another load only ever adds.
inline std::vector<double> processor_times(const std::vector<std::function<void()>>& runs) {
  constexpr int kRounds = 21, kFewRounds = 5;
  constexpr double kSample = 2e-3, kEnough = 2;  // seconds
  const auto now = [] {
    std::timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  std::vector<std::vector<double>> samples(runs.size());
  const double first = now();
  for (int round = 0; round < kRounds; ++round) {
    if (round >= kFewRounds && now() - first > kEnough) break;
    for (size_t i = 0; i < runs.size(); ++i) {
      const double begin = now();
      double end = begin;
      int calls = 0;
      while (end - begin < kSample) runs[i](), ++calls, end = now();
      samples[i].push_back((end - begin) / calls);
    }
  }
  std::vector<double> seconds;
  for (std::vector<double>& s : samples) {
    std::sort(s.begin(), s.end());
    seconds.push_back(s[s.size() / 4]);
  }
  return seconds;
}

/// Different sizes whose logarithms are evenly spread, at most `count`, in order.
inline std::vector<std::vector<int64_t>> drawn_sizes(const std::vector<Dim>& dims, int count,
                                                     uint64_t seed) {
  Rng rng(seed);
  std::set<std::vector<int64_t>> seen;
  for (int tries = 0; static_cast<int>(seen.size()) < count && tries < 50 * count; ++tries) {
    std::vector<int64_t> sizes;
    for (const Dim& d : dims) {
      const double lo = std::log(static_cast<double>(d.lo())),
                   hi = std::log(static_cast<double>(d.hi()) + 1);
      const auto size = static_cast<int64_t>(std::exp(lo + (hi - lo) * rng.uniform_real()));
      sizes.push_back(std::clamp(size / d.multiple() * d.multiple(), d.lo(), d.hi()));
    }
    seen.insert(std::move(sizes));
  }
  return {seen.begin(), seen.end()};
}

}  // namespace heddle::bench
