#include <gtest/gtest.h>

#include <cmath>

#include "heddle/cost_model/cost_model.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

using Values = std::vector<double>;

TEST(Metrics, PerfectAndReversed) {
  Values x{1, 2, 3, 4, 5};
  ModelAccuracy same = evaluate_ranking(Values{10, 20, 30, 40, 50}, x);
  EXPECT_DOUBLE_EQ(same.spearman, 1);
  EXPECT_DOUBLE_EQ(same.top10_recall, 1);
  EXPECT_DOUBLE_EQ(same.best_of_top10, 1);
  EXPECT_EQ(same.samples, 5);
  EXPECT_DOUBLE_EQ(evaluate_ranking(Values{5, 4, 3, 2, 1}, x).spearman, -1);
}

TEST(Metrics, KnownCorrelation) {
  // Ranks differ by 1, 1, 1, 1, 0: 1 - 6*4 / (5*24).
  EXPECT_NEAR(evaluate_ranking(Values{2, 1, 4, 3, 5}, Values{1, 2, 3, 4, 5}).spearman, 0.8, 1e-12);
}

TEST(Metrics, TiesShareTheMeanRank) {
  // Ranks 0.5, 0.5, 2, 3 against 0, 1, 2, 3: 4.5 / sqrt(4.5 * 5).
  EXPECT_NEAR(evaluate_ranking(Values{7, 7, 8, 9}, Values{1, 2, 3, 4}).spearman,
              4.5 / std::sqrt(22.5), 1e-12);
  EXPECT_EQ(evaluate_ranking(Values{1, 1, 1}, Values{1, 2, 3}).spearman, 0);
}

TEST(Metrics, TopTen) {
  Values measured, predicted;
  for (int i = 0; i < 40; ++i) measured.push_back(i);
  // Predicts the 10 from 27 to 36 to be the best: 7 of the true 10 best are among them.
  for (int i = 0; i < 40; ++i) predicted.push_back(i >= 27 && i < 37 ? 1000 - i : 0);
  ModelAccuracy a = evaluate_ranking(predicted, measured);
  EXPECT_DOUBLE_EQ(a.top10_recall, 0.7);
  EXPECT_DOUBLE_EQ(a.best_of_top10, 36.0 / 39);
}

TEST(Metrics, NothingMeasured) {
  ModelAccuracy a = evaluate_ranking(Values{}, Values{});
  EXPECT_EQ(a.samples, 0);
  EXPECT_EQ(a.spearman, 0);
  EXPECT_EQ(evaluate_ranking(Values{1, 2}, Values{0, 0}).best_of_top10, 0);  // all failed
}

TEST(Metrics, LengthsMustAgree) { EXPECT_THROW(evaluate_ranking(Values{1}, Values{1, 2}), Error); }

}  // namespace
}  // namespace heddle
