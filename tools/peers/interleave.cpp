#include "peers/interleave.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <random>

#include "peers/idle.h"

namespace heddle::peers {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double time_calls(const std::function<void()>& run, int calls) {
  const auto start = Clock::now();
  for (int i = 0; i < calls; ++i) run();
  return seconds_since(start);
}

constexpr int kMostCalls = 1 << 24;

int calls_that_last(double wanted_seconds, double one_call_seconds) {
  const double calls = std::ceil(wanted_seconds / std::max(one_call_seconds, 1e-9));
  return static_cast<int>(std::clamp<double>(calls, 1, kMostCalls));
}

// The number of calls of a sample of the wanted length. It grows step by step, because a single
// call may be too short for the clock, or long only because it is the first.
int calls_for_sample(const std::function<void()>& run, double wanted_seconds) {
  run();
  int calls = 1;
  while (calls < kMostCalls) {
    const double took = time_calls(run, calls);
    if (took >= wanted_seconds) return calls_that_last(wanted_seconds, took / calls);
    const double growth = took > 0 ? wanted_seconds / took * 1.1 : 10.0;
    calls = std::min<int>(kMostCalls, static_cast<int>(calls * std::clamp(growth, 1.5, 10.0)) + 1);
  }
  return kMostCalls;
}

// Calls untimed until clocks, workers and caches are warm. A sleeping worker takes about 100 us to
// begin, which is several calls of a small kernel. After ten passes, some MB that others had
// evicted are in the last-level cache again.
void warm_up(const std::function<void()>& run) {
  constexpr double kWarmSeconds = 2e-3;
  const auto start = Clock::now();
  do {
    run();
  } while (seconds_since(start) < kWarmSeconds);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t mid = values.size() / 2;
  return values.size() % 2 == 1 ? values[mid] : 0.5 * (values[mid - 1] + values[mid]);
}

}  // namespace

std::vector<CaseTimes> time_interleaved(const std::vector<TimedCase>& cases,
                                        const InterleaveOptions& options) {
  const auto start = Clock::now();
  const size_t count = cases.size();
  std::vector<int> calls(count);
  for (size_t i = 0; i < count; ++i) {
    calls[i] = calls_for_sample(cases[i].run, options.min_sample_seconds);
  }
  std::vector<std::vector<double>> samples(count);
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937 random(1);  // the same orders in every run
  for (int round = 0; round < options.max_rounds; ++round) {
    if (round >= options.min_rounds && seconds_since(start) >= options.time_cap_seconds) break;
    // The order is drawn anew in each round, so that a case does not always follow the same other
    // case.
    std::shuffle(order.begin(), order.end(), random);
    for (const size_t i : order) {
      const bool long_call = !samples[i].empty() && samples[i].back() > kLongCallSeconds;
      if (options.settle_seconds > 0 && !long_call) {
        wait_until_idle(options.settle_seconds);
        warm_up(cases[i].run);
      }
      const double took = time_calls(cases[i].run, calls[i]);
      samples[i].push_back(took / calls[i]);
      // The first estimate was made with cold caches.
      if (took < options.min_sample_seconds)
        calls[i] = calls_that_last(options.min_sample_seconds, took / calls[i]);
    }
  }
  std::vector<CaseTimes> out;
  for (size_t i = 0; i < count; ++i) {
    CaseTimes times;
    times.name = cases[i].name;
    times.samples = static_cast<int>(samples[i].size());
    times.calls_per_sample = calls[i];
    if (!samples[i].empty()) {
      times.median_seconds = median(samples[i]);
      times.min_seconds = *std::min_element(samples[i].begin(), samples[i].end());
    }
    out.push_back(times);
  }
  return out;
}

}  // namespace heddle::peers
