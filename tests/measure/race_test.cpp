// The winner of a race: the static choice, unless a candidate is significantly faster.
#include "measure/task/race.h"

#include <gtest/gtest.h>

#include "heddle/measure/measure.h"
#include "heddle/support/rng.h"

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
  EXPECT_FALSE(clearly_faster(steady(0.6, 2), steady(1.0, 2)));
  EXPECT_TRUE(clearly_faster(steady(0.45, 1), steady(1.0, 1)));
  EXPECT_FALSE(clearly_faster(timed({0.8, 1.0}), timed({1.0, 0.9})));
  EXPECT_FALSE(clearly_faster(steady(0.97, 3), steady(1.0, 3)));
  EXPECT_TRUE(clearly_faster(steady(0.97, 4), steady(1.0, 4)));
}

TEST(Race, TheMoreRaceTheMoreRoundsMustBeWon) {
  EXPECT_TRUE(clearly_faster(steady(0.97, 5), steady(1.0, 5), 1));
  EXPECT_FALSE(clearly_faster(steady(0.97, 5), steady(1.0, 5), 6));
  EXPECT_TRUE(clearly_faster(steady(0.94, 5), steady(1.0, 5), 6));
  EXPECT_TRUE(clearly_faster(steady(0.97, 8), steady(1.0, 8), 6));
  EXPECT_FALSE(clearly_faster(steady(0.9, 0), steady(1.0, 0)));
  EXPECT_TRUE(clearly_faster(steady(0.97, 5000), steady(1.0, 5000), 6));
  // Each of the six wins five of seven rounds, by much: one of six does so now and then.
  MeasureResult base = steady(1.0, 7), lucky = timed({0.9, 0.9, 0.9, 1.1, 0.9, 1.1, 0.9});
  std::vector<MeasureResult> field(7, lucky);
  field[0] = base;
  EXPECT_EQ(race_winner(field), 0);
}

// Times of all racers are drawn from one distribution, with the long tail that a shared machine
// has: the static choice keeps its place in all but one race of fifteen, however many run against
// it.
TEST(Race, LuckSeldomWins) {
  Rng rng(7);
  auto draw = [&](double seconds) {
    const double tail = rng.chance(0.1) ? 0.3 * rng.uniform_real() : 0;
    return seconds * (1 + 0.04 * rng.uniform_real() + tail);
  };
  constexpr int kRaces = 1000;
  for (size_t racers : {2, 4, 7}) {
    for (size_t rounds : {2, 5, 8, 16, 40, 100}) {
      int lucky = 0, deserved = 0;
      for (int race = 0; race < kRaces; ++race) {
        std::vector<MeasureResult> field(racers);
        for (size_t i = 0; i < rounds; ++i) {
          for (MeasureResult& r : field) r.seconds.push_back(draw(1));
        }
        if (race_winner(field) != 0) ++lucky;
        for (double& s : field.back().seconds) s *= 0.9;
        if (race_winner(field) == static_cast<int>(racers) - 1) ++deserved;
      }
      EXPECT_LE(lucky, 0.08 * kRaces) << racers << " racers, " << rounds << " rounds";
      if (rounds >= 16) {
        EXPECT_GE(deserved, 0.7 * kRaces) << racers << " racers, " << rounds << " rounds";
      }
    }
  }
}

TEST(Race, FailuresNeverWin) {
  MeasureResult wrong;
  wrong.error = MeasureError::WrongAnswer;
  EXPECT_EQ(race_winner(std::vector{steady(1.0), wrong}), 0);
  EXPECT_EQ(race_winner(std::vector{wrong, steady(2.0)}), 1);
  EXPECT_EQ(race_winner(std::vector{wrong, wrong}), -1);
  EXPECT_EQ(race_winner({}), -1);
}

}  // namespace
}  // namespace heddle::testing
