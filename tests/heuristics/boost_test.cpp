#include "heuristics/train/boost.h"

#include <gtest/gtest.h>

#include <cmath>

#include "heuristics/planted.h"
#include "heuristics/train/regret_table.h"
#include "heuristics/train/select_terms.h"

namespace heddle::learning {
namespace {

using Times = std::vector<double>;

/// b gains with the rows, c where the layout is not the first, and the rule is "a".
Times smooth(const std::vector<double>& f) {
  return {1, std::exp2(0.2 - 0.05 * std::log2(f[0])), f[2] == 0 ? 1.2 : 0.8};
}

HeuristicData data_of(int count, const PlantedTimes& times, std::uint64_t seed = 1) {
  HeuristicData data = planted_data();
  Rng rng(seed);
  add_problems(data, count, times, rng);
  return data;
}

std::vector<std::int32_t> all_of(const HeuristicData& data) {
  std::vector<std::int32_t> all;
  for (std::size_t p = 0; p < data.problems.size(); ++p) all.push_back(static_cast<int>(p));
  return all;
}

/// The root of the mean squared error of the predictions of the first `terms` trees.
double error_of(const std::vector<SumTerm>& sum, std::size_t terms, const HeuristicData& data,
                const RegretTable& regrets) {
  double squares = 0;
  for (std::size_t p = 0; p < data.problems.size(); ++p) {
    RunningSum running(data.problems[p], 3);
    for (std::size_t t = 0; t < terms; ++t) running.add(sum[t]);
    for (int c = 1; c < regrets.columns(); ++c) {
      const double left = running.predicted()[static_cast<std::size_t>(c) - 1] -
                          regrets.losses(static_cast<std::int32_t>(p))[static_cast<std::size_t>(c)];
      squares += left * left;
    }
  }
  return std::sqrt(squares / (3 * static_cast<double>(data.problems.size())));
}

TEST(Boost, EachTreeLeavesLessAndUnseenProblemsArePredicted) {
  const HeuristicData data = data_of(300, smooth), unseen = data_of(200, smooth, 2);
  const TrainOptions options;
  const RegretTable regrets(data, options), of_unseen(unseen, options);
  const std::vector<SumTerm> sum = boost(data, regrets, all_of(data), options);
  ASSERT_EQ(sum.size(), 48u);
  double before = error_of(sum, 0, data, regrets);
  for (const std::size_t terms : {1, 4, 16, 48}) {
    const double now = error_of(sum, terms, data, regrets);
    EXPECT_LT(now, before) << terms;
    before = now;
  }
  EXPECT_LT(error_of(sum, 48, unseen, of_unseen), 0.02);
}

TEST(Boost, AChoiceThatIsFarSlowerIsNoHarderToPredict) {
  const auto slow = [](double factor) {
    return data_of(100, [factor](const auto& f) { return Times{1, f[1] != 0 ? factor : 0.9, 1}; });
  };
  const HeuristicData twice = slow(2), much = slow(200);
  const TrainOptions options;
  const RegretTable a(twice, options), b(much, options);
  const std::vector<SumTerm> x = boost(twice, a, all_of(twice), options),
                             y = boost(much, b, all_of(much), options);
  ASSERT_EQ(x.size(), y.size());
  for (std::size_t t = 0; t < x.size(); ++t) EXPECT_EQ(x[t].values, y[t].values) << t;
}

TEST(Boost, TheAnswerIsTheRuleWhereNothingGainsOrTheChoiceIsMissing) {
  HeuristicData data = data_of(100, [](const auto&) { return Times{1, 0.7, 0.99}; });
  data.problems[0].seconds[1] = kNotMeasured;
  const TrainOptions options;
  const RegretTable regrets(data, options);
  const std::vector<SumTerm> sum = boost(data, regrets, all_of(data), options);
  const auto answer = [&](int problem, double least_gain) {
    RunningSum running(data.problems[static_cast<std::size_t>(problem)], 3);
    for (const SumTerm& term : sum) running.add(term);
    return running.answer(regrets, problem, least_gain);
  };
  EXPECT_EQ(regrets.choice(answer(1, 0.02)), 1) << "b";
  EXPECT_EQ(answer(1, 0.6), 0);
  EXPECT_EQ(answer(0, 0.02), 0) << "b is missing";
}

TEST(Boost, WhereNothingIsLearnedTheSumOnlyRanks) {
  Rng luck(8);
  const HeuristicData noise = data_of(200, [&](const auto&) {
    return Times{1 + luck.uniform_real(), 1 + luck.uniform_real(), 1 + luck.uniform_real()};
  });
  const TrainOptions options;
  EXPECT_FALSE(select_terms(noise, RegretTable(noise, options), all_of(noise), options).answers);
  const HeuristicData data = data_of(200, smooth);
  const SumSize size = select_terms(data, RegretTable(data, options), all_of(data), options);
  EXPECT_TRUE(size.answers);
  EXPECT_GT(size.terms, 4);
}

}  // namespace
}  // namespace heddle::learning
