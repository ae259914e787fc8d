#include "heuristics/train/confidence.h"

#include <gtest/gtest.h>

#include <cmath>

#include "heddle/support/rng.h"

namespace heddle {
namespace {

// Abramowitz and Stegun, "Handbook of Mathematical Functions", table 26.10.
TEST(Confidence, QuantilesAreThoseOfTheTables) {
  EXPECT_NEAR(learning::student_quantile(0.90, 1), 3.078, 5e-4);
  EXPECT_NEAR(learning::student_quantile(0.95, 1), 6.314, 5e-4);
  EXPECT_NEAR(learning::student_quantile(0.95, 2), 2.920, 5e-4);
  EXPECT_NEAR(learning::student_quantile(0.95, 5), 2.015, 5e-4);
  EXPECT_NEAR(learning::student_quantile(0.99, 10), 2.764, 5e-4);
  EXPECT_NEAR(learning::student_quantile(0.90, 30), 1.310, 5e-4);
  EXPECT_NEAR(learning::student_quantile(0.95, 120), 1.658, 5e-4);
  EXPECT_NEAR(learning::student_quantile(0.95, 100000), 1.645, 5e-4);
}

TEST(Confidence, WithoutAPriorTheBoundIsStudents) {
  const std::vector<double> sample = {1, 2, 3, 4};
  // Mean 2.5, s = 1.290994, t(0.95; 3) = 2.353363.
  EXPECT_NEAR(learning::mean_bound(sample, {0, 0}, 0.95), 2.5 + 2.353363 * 1.290994 / 2, 1e-4);
}

TEST(Confidence, EqualNumbersAreNotCertain) {
  const std::vector<double> sample(5, 0.0);
  EXPECT_GT(learning::mean_bound(sample, {0.01, 4}, 0.9), 0.02);
  EXPECT_EQ(learning::mean_bound(sample, {0, 4}, 0.9), 0);
}

// The mean is below the bound in the share of cases that the confidence states.
TEST(Confidence, TheBoundHoldsAsOftenAsItSays) {
  Rng rng(3);
  int held = 0;
  constexpr int kRounds = 2000;
  const double student = learning::student_quantile(0.9, 7);
  for (int round = 0; round < kRounds; ++round) {
    std::vector<double> sample;
    for (int i = 0; i < 8; ++i) sample.push_back(rng.normal());
    const double deviation = std::sqrt(learning::squared_deviations(sample) / 7);
    held += learning::mean_of(sample) + student * deviation / std::sqrt(8.0) >= 0;
  }
  EXPECT_NEAR(held / static_cast<double>(kRounds), 0.9, 0.03);
}

}  // namespace
}  // namespace heddle
