// A network with several schedules of each task in one memory plan.
#include "network/race/variant_runner.h"

#include "heddle/ops/ops.h"
#include "network/network_testing.h"

namespace heddle::testing {
namespace {

class VariantRunners : public ::testing::Test {
 protected:
  VariantRunners() {
    const std::vector<Schedule> untuned = net_.static_schedules(), naive = net_.naive_schedules();
    for (size_t t = 0; t < untuned.size(); ++t) {
      schedules_.push_back({untuned[t], naive[t]});
      order_.push_back(t);
    }
  }
  Network net_ = Network({digits_network()});
  std::vector<std::vector<Schedule>> schedules_;
  std::vector<size_t> order_;
  TuneClock endless_;
};

TEST_F(VariantRunners, EveryMixtureComputesTheSame) {
  network::VariantRunner runner(net_, schedules_, order_, endless_);
  const size_t tasks = net_.tasks().size();
  ASSERT_GT(tasks, 2u);
  for (const std::vector<int>& list : runner.available()) EXPECT_EQ(list.size(), 2u);
  for (size_t changed = 0; changed < tasks; ++changed) {
    std::vector<int> variants(tasks, 0);
    for (size_t t = changed; t < tasks; t += 2) variants[t] = 1;
    EXPECT_EQ(runner.difference(variants), "");
  }
}

TEST_F(VariantRunners, TimesAddUp) {
  network::VariantRunner runner(net_, schedules_, order_, endless_);
  const network::VariantTimes times = runner.call(std::vector<int>(net_.tasks().size(), 1));
  double sum = 0;
  for (const double s : times.tasks) {
    EXPECT_GT(s, 0);
    sum += s;
  }
  EXPECT_NEAR(sum, times.total, 1e-9);
}

TEST_F(VariantRunners, WithoutTimeOnlyTheStaticChoicesAreThere) {
  const TuneClock none(0);
  const network::VariantRunner runner(net_, schedules_, order_, none);
  for (const std::vector<int>& list : runner.available()) EXPECT_EQ(list, std::vector<int>{0});
}

TEST_F(VariantRunners, TheRaceIsOfTheSchedulesGiven) {
  // Also where the first of a list is not the fastest.
  std::vector<std::vector<Schedule>> mixed = schedules_;
  for (size_t t = 0; t < mixed.size(); t += 2) std::swap(mixed[t][0], mixed[t][1]);
  const std::unique_ptr<JointRace> race = make_network_race(net_);
  const JointRace::Verdict v = race->race(mixed, {}, order_, 20, endless_);
  ASSERT_EQ(v.winners.size(), mixed.size());
  ASSERT_EQ(v.results.size(), mixed.size());
  for (size_t t = 0; t < mixed.size(); ++t) {
    ASSERT_EQ(v.results[t].size(), 2u);
    EXPECT_FALSE(v.results[t][0].seconds.empty());
  }
  EXPECT_NE(v.whole.verdict, RaceResult::AnswersDiffer);
  EXPECT_GT(v.whole.rounds, 0);
}

}  // namespace
}  // namespace heddle::testing
