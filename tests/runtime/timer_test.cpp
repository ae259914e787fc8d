#include "heddle/runtime/timer.h"

#include <gtest/gtest.h>

#include "runtime/kernel/timer_clock.h"

namespace heddle {
namespace {

/// A clock that only calls of `work` turn.
struct FakeClock {
  double now = 0, call_s = 0;
  int calls = 0;
  Measurement measure(double min_time_s, int max_repeats) {
    return internal::measure_by([&] { return now; }, [&] { work(); }, min_time_s, max_repeats);
  }
  void work() {
    ++calls;
    now += call_s;
  }
};

TEST(Measure, TakesAtLeastOneSample) {
  FakeClock clock{.call_s = 1e-3};
  const Measurement m = clock.measure(/*min_time_s=*/0, /*max_repeats=*/1);
  ASSERT_EQ(m.samples_s.size(), 1U);
  EXPECT_NEAR(m.samples_s[0], 1e-3, 1e-12);
  EXPECT_EQ(clock.calls, 2);  // one to warm up
}

TEST(Measure, TakesSamplesUntilTheTimeIsUsedOrThereAreEnough) {
  FakeClock clock{.call_s = 1e-3};
  EXPECT_EQ(clock.measure(4.5e-3, 100).samples_s.size(), 5U);
  EXPECT_EQ(clock.measure(100, 7).samples_s.size(), 7U);
}

TEST(Measure, ShortCallsAreTimedInBatches) {
  FakeClock clock{.call_s = 50e-9};
  const Measurement m = clock.measure(1e-3, 1000);
  // A sample lasts 10 us and more, of which reading the clock is a small part.
  EXPECT_GE(m.calls_per_sample, 200);
  EXPECT_LE(m.calls_per_sample, 1000);
  EXPECT_NEAR(m.median_s, 50e-9, 1e-12);
  EXPECT_NEAR(m.min_s, 50e-9, 1e-12);
}

TEST(Measure, AClockThatStandsStillEndsTheGrowthOfBatches) {
  FakeClock clock;
  EXPECT_EQ(clock.measure(0, 1).samples_s.size(), 1U);
}

TEST(Measure, SummarisesItsSamples) {
  // 1 to 8 ms a call, the first to warm up.
  FakeClock clock;
  const Measurement m = internal::measure_by([&] { return clock.now; },
                                             [&] {
                                               clock.call_s += 1e-3;
                                               clock.work();
                                             },
                                             100, 7);
  ASSERT_EQ(m.samples_s.size(), 7U);  // 2 to 8 ms
  EXPECT_NEAR(m.min_s, 2e-3, 1e-9);
  EXPECT_NEAR(m.median_s, 5e-3, 1e-9);
  EXPECT_NEAR(m.spread(), (7.0 - 3.0) / 5, 1e-6);
}

TEST(Measure, IsByTheSteadyClock) {
  const double before = internal::steady_seconds();
  int calls = 0;
  const Measurement m = measure([&] { ++calls; }, 0, 1);
  const double all = internal::steady_seconds() - before;
  EXPECT_GE(m.median_s, 0);
  EXPECT_LE(m.median_s * m.calls_per_sample, all);
  EXPECT_GE(calls, 2);
}

}  // namespace
}  // namespace heddle
