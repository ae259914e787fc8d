#include "heddle/runtime/timer.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

TEST(Measure, TakesAtLeastOneSampleAndKeepsTheLimit) {
  int calls = 0;
  auto slow = [&] {
    ++calls;
    const Timer timer;
    while (timer.elapsed_s() < 1e-3) {
    }
  };
  const Measurement m = measure(slow, /*min_time_s=*/0, /*max_repeats=*/1);
  EXPECT_EQ(m.samples_s.size(), 1U);
  EXPECT_EQ(calls, 2);  // one to warm up
  EXPECT_GE(m.min_s, 1e-3);
  const Measurement five = measure(slow, 100, 5);
  EXPECT_EQ(five.samples_s.size(), 5U);
  EXPECT_LE(five.min_s, five.median_s);
  EXPECT_GE(five.spread(), 0);
}

TEST(Measure, ShortCallsAreTimedInBatches) {
  volatile int sink = 0;
  const Measurement m = measure([&] { sink = sink + 1; }, 1e-3);
  EXPECT_GT(m.calls_per_sample, 100);
  EXPECT_GT(m.median_s, 0);
  EXPECT_LT(m.median_s, 1e-6);
}

}  // namespace
}  // namespace heddle
