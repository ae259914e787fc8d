// How probable it is that a search has found what there is, and what more of it would give.
#include "search/nearness.h"

#include <gtest/gtest.h>

#include <vector>

namespace heddle::testing {
namespace {

using search::expected_gain;
using search::Nearness;
using search::TunedTask;

Nearness after(int trials, std::optional<double> certified = std::nullopt, double gain_at_end = 0) {
  Nearness n(certified);
  for (int i = 0; i <= trials; ++i) n.add(1);
  if (gain_at_end > 0) n.add(1 - gain_at_end);
  return n;
}

TEST(Nearness, KnowsNothingBeforeSomethingWorks) {
  Nearness n;
  EXPECT_EQ(n.probability(0.05), 0);
  n.add(0);
  EXPECT_EQ(n.probability(0.05), 0);
  n.add(1);
  EXPECT_GT(n.probability(0.05), 0);
}

TEST(Nearness, GrowsWithTrialsThatGainNothing) {
  double before = 0;
  for (const int trials : {0, 10, 50, 100, 200, 400}) {
    const double now = after(trials).probability(0.05);
    EXPECT_GT(now, before);
    EXPECT_LT(now, 1);
    before = now;
  }
  EXPECT_GT(before, 0.95);
}

TEST(Nearness, StartsAnewAfterAGain) {
  EXPECT_LT(after(200, {}, 0.1).probability(0.05), 0.6);
  EXPECT_GT(after(200, {}, 0.005).probability(0.05), 0.8);  // less than 1 % is noise
  // A gain refutes what a certificate said.
  EXPECT_EQ(after(0, 0.95, 0.1).probability(0.05), after(0, {}, 0.1).probability(0.05));
}

TEST(Nearness, SmallGainsAddUp) {
  Nearness n;
  double seconds = 1;
  for (int i = 0; i < 300; ++i) n.add(seconds *= 0.998);
  EXPECT_LT(n.probability(0.05), 0.6);
}

TEST(Nearness, IsLikelierWithinALargerShare) {
  for (const int trials : {0, 30, 100}) {
    EXPECT_LT(after(trials).probability(0.02), after(trials).probability(0.05));
    EXPECT_LT(after(trials).probability(0.05), after(trials).probability(0.2));
  }
}

TEST(Nearness, BeginsWithTheCertificate) {
  EXPECT_LT(after(0, 0.1).probability(0.05), after(0).probability(0.05));
  EXPECT_GT(after(0, 0.95).probability(0.05), after(0).probability(0.05));
  EXPECT_LT(after(0, 0.6).probability(0.05), after(0, 0.9).probability(0.05));
}

TEST(Nearness, IsCertainWhenNothingIsLeft) {
  Nearness n = after(1);
  n.exhaust();
  EXPECT_EQ(n.probability(0.01), 1);
  EXPECT_EQ(n.found_by(1000), 0);
}

TEST(ExpectedGain, FallsWithTrialsAndGrowsWithTime) {
  const auto gain = [](int trials, double seconds) {
    const std::vector<TunedTask> one{
        {.nearness = after(trials), .seconds = 1, .trial_seconds = 0.1}};
    return expected_gain(one, seconds);
  };
  EXPECT_GT(gain(10, 60), gain(200, 60));
  EXPECT_GT(gain(10, 60), gain(10, 5));
  EXPECT_LT(gain(10, 1e6), 0.14);
  EXPECT_GT(gain(10, 60), 0);
}

TEST(ExpectedGain, GoesWhereMostIsLeft) {
  const TunedTask large{.nearness = after(5), .seconds = 9, .trial_seconds = 0.5},
      near{.nearness = after(500), .seconds = 9, .trial_seconds = 0.5};
  // A task in which nothing is left takes no time from the other: the sum is larger, the saving is the same.
  const std::vector<TunedTask> one{large}, both{large, near};
  EXPECT_NEAR(9 * expected_gain(one, 60), 18 * expected_gain(both, 60), 0.01);
}

TEST(ExpectedGain, IsNoMoreThanTheMachineAllows) {
  const auto gain = [](double least) {
    const std::vector<TunedTask> one{
        {.nearness = after(5), .seconds = 1, .least_seconds = least, .trial_seconds = 0.1}};
    return expected_gain(one, 600);
  };
  EXPECT_GT(gain(0), gain(0.99));
  EXPECT_LE(gain(0.99), 0.01);
  EXPECT_EQ(gain(1.5), 0);  // a bound that is wrong
}

TEST(ExpectedGain, IsNothingWhereNothingIsKnown) {
  EXPECT_EQ(expected_gain({}, 60), 0);
  const std::vector<TunedTask> unmeasured{{.seconds = 1}};
  EXPECT_EQ(expected_gain(unmeasured, 60), 0);
}

}  // namespace
}  // namespace heddle::testing
