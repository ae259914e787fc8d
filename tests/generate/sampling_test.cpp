#include "heddle/generate/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "heddle/support/error.h"

namespace heddle {
namespace {

/// How often each token is drawn.
std::vector<double> shares(const std::vector<float>& logits, Sampling how, int draws = 20000) {
  std::vector<double> counts(logits.size());
  for (int n = 0; n < draws; ++n)
    counts[static_cast<size_t>(sample(logits, how, static_cast<uint64_t>(n)))] += 1.0 / draws;
  return counts;
}

TEST(Sampling, TheLargestLogitIsTakenAtTemperatureZero) {
  EXPECT_EQ(sample(std::vector<float>{1, 3, 2}, {}, 0), 1);
  EXPECT_EQ(sample(std::vector<float>{2, 3, 3}, {}, 5), 1) << "the first of equal ones";
  EXPECT_EQ(sample(std::vector<float>{1, 3, 2}, {.temperature = 5, .top_k = 1}, 0), 1);
  EXPECT_EQ(sample(std::vector<float>{1, 3, 2}, {.temperature = 5, .top_p = 1e-6}, 0), 1);
}

TEST(Sampling, TokensAreDrawnWithTheirProbabilities) {
  const std::vector<float> logits{0, 1, 2, -1};
  double total = 0;
  for (const float x : logits) total += std::exp(x / 0.7);
  const std::vector<double> found = shares(logits, {.temperature = 0.7, .seed = 3});
  for (size_t i = 0; i < logits.size(); ++i)
    EXPECT_NEAR(found[i], std::exp(logits[i] / 0.7) / total, 0.015);
}

TEST(Sampling, TopKAndTopPLeaveTheLargest) {
  const std::vector<float> logits{0, 1, 2, -1};
  const std::vector<double> two = shares(logits, {.temperature = 1, .top_k = 2});
  EXPECT_EQ(two[0] + two[3], 0);
  EXPECT_NEAR(two[2], std::exp(1) / (std::exp(1) + 1), 0.015);
  // The probabilities are 0.64, 0.24, 0.09 and 0.03.
  EXPECT_EQ(shares(logits, {.temperature = 1, .top_p = 0.6})[1], 0);
  const std::vector<double> most = shares(logits, {.temperature = 1, .top_p = 0.7});
  EXPECT_GT(most[1], 0.2);
  EXPECT_EQ(most[0] + most[3], 0);
}

TEST(Sampling, ADrawIsAFunctionOfSeedAndNumber) {
  const std::vector<float> logits(64);
  const Sampling how{.temperature = 1, .seed = 9};
  std::set<int64_t> seen;
  for (uint64_t n = 0; n < 64; ++n) {
    const int64_t first = sample(logits, how, n);
    EXPECT_EQ(sample(logits, how, n), first);
    seen.insert(first);
  }
  EXPECT_GT(seen.size(), 30u);
  int differ = 0;
  for (uint64_t n = 0; n < 64; ++n)
    differ += sample(logits, how, n) != sample(logits, {.temperature = 1, .seed = 10}, n);
  EXPECT_GT(differ, 55);
}

TEST(Sampling, WhatIsNoNumberIsNeverDrawn) {
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinite = std::numeric_limits<float>::infinity();
  EXPECT_EQ(sample(std::vector<float>{nan, 1, nan}, {}, 0), 1);
  for (uint64_t n = 0; n < 20; ++n) {
    EXPECT_EQ(sample(std::vector<float>{nan, -infinite, 0, nan}, {.temperature = 1}, n), 2);
    EXPECT_EQ(sample(std::vector<float>{0, infinite, 5}, {.temperature = 1}, n), 1);
  }
  EXPECT_THROW(sample(std::vector<float>{nan, nan}, {}, 0), Error);
  EXPECT_THROW(sample(std::vector<float>{}, {}, 0), Error);
}

TEST(Sampling, WrongSettingsAreErrors) {
  const std::vector<float> logits{1, 2};
  EXPECT_THROW(sample(logits, {.temperature = -1}, 0), Error);
  EXPECT_THROW(sample(logits, {.temperature = std::nan("")}, 0), Error);
  EXPECT_THROW(sample(logits, {.temperature = std::numeric_limits<double>::infinity()}, 0), Error);
  EXPECT_THROW(sample(logits, {.temperature = 1, .top_k = -1}, 0), Error);
  EXPECT_THROW(sample(logits, {.temperature = 1, .top_p = 0}, 0), Error);
  EXPECT_THROW(sample(logits, {.temperature = 1, .top_p = 1.5}, 0), Error);
}

}  // namespace
}  // namespace heddle
