// Who wins a race: the static choice unless beaten beyond doubt.
#include "search/race.h"

#include <gtest/gtest.h>

#include "search/search_testing.h"

namespace heddle::testing {
namespace {

MeasureResult timed(std::vector<double> seconds) {
  MeasureResult r;
  r.seconds = std::move(seconds);
  return r;
}
MeasureResult steady(double seconds, size_t n = 20) {
  return timed(std::vector<double>(n, seconds));
}

TEST(Race, TheFastestWinsIfClearlyFasterThanStatic) {
  EXPECT_EQ(race_winner(std::vector{steady(1.0), steady(0.9), steady(0.8)}), 2);
  EXPECT_EQ(race_winner(std::vector{steady(1.0), steady(1.1)}), 0);
}

TEST(Race, TiesGoToStatic) {
  EXPECT_EQ(race_winner(std::vector{steady(1.0), steady(1.0)}), 0);
  EXPECT_EQ(race_winner(std::vector{steady(1.0), steady(0.998)}), 0);
}

TEST(Race, AMedianThatChanceExplainsIsATie) {
  // Ahead by 2 % in the median, but ahead in half of the rounds only.
  MeasureResult base = timed({1.00, 1.00, 1.10, 1.00, 0.90, 1.00, 1.10, 0.90});
  MeasureResult other = timed({0.98, 1.05, 0.98, 1.05, 0.98, 1.05, 0.98, 0.95});
  ASSERT_LT(other.median(), 0.995 * base.median());
  EXPECT_FALSE(clearly_faster(other, base));
  EXPECT_EQ(race_winner(std::vector{base, other}), 0);
}

TEST(Race, NoiseCommonToARoundDoesNotHideAGain) {
  // The machine slows down for half of the time; the candidate is ahead in every round.
  MeasureResult base = timed({1.0, 1.5, 1.0, 1.5, 1.0, 1.5}),
                other = timed({0.97, 1.45, 0.97, 1.45, 0.97, 1.45});
  EXPECT_TRUE(clearly_faster(other, base));
}

TEST(Race, FewRoundsNeedALargeGain) {
  EXPECT_FALSE(clearly_faster(steady(0.97, 1), steady(1.0, 1)));
  EXPECT_TRUE(clearly_faster(steady(0.90, 1), steady(1.0, 1)));
  EXPECT_FALSE(clearly_faster(timed({0.8, 1.0}), timed({1.0, 0.9})));
  EXPECT_TRUE(clearly_faster(steady(0.97, 3), steady(1.0, 3)));
}

TEST(Race, FailuresNeverWin) {
  MeasureResult wrong = failure(MeasureError::WrongAnswer);
  EXPECT_EQ(race_winner(std::vector{steady(1.0), wrong}), 0);
  EXPECT_EQ(race_winner(std::vector{wrong, steady(2.0)}), 1);
  EXPECT_EQ(race_winner(std::vector{wrong, wrong}), -1);
  EXPECT_EQ(race_winner({}), -1);
}

}  // namespace
}  // namespace heddle::testing
