// The times of the schedules of one problem: the cases that are measured twice, and the accepted
// times.
#include "heuristics/collect/measure_choices.h"

#include <map>

#include "heuristics/collect/quiet.h"
#include "search/search_testing.h"

namespace heddle::testing {
namespace {

class MeasureChoices : public ::testing::Test {
 protected:
  MeasureChoices() {
    for (const Config& c : {Config{{1, 1}}, Config{{2, 2}}, Config{{4, 1}}, Config{{8, 4}}})
      schedules_.push_back(task_.tmpl.instantiate(c));
  }
  size_t index_of(const Schedule& s) const {
    for (size_t i = 0; i < schedules_.size(); ++i) {
      if (measuring::steps_hash(schedules_[i]) == measuring::steps_hash(s)) return i;
    }
    return schedules_.size();
  }
  /// Times of the schedules, in the order in which each is measured; the last one again and again.
  learning::ChoiceTimes times(std::vector<std::vector<double>> seconds) {
    const auto truth = [=, this](const TuneTask&, const Schedule& s) {
      return seconds_of(seconds.at(index_of(s)).back());
    };
    FakeMeasurer measurer(
        [=, this](const TuneTask&, const Schedule& s) {
          const std::vector<double>& of = seconds.at(index_of(s));
          return seconds_of(of.at(std::min(calls_[index_of(s)]++, of.size() - 1)));
        },
        truth);
    const TuneClock clock(1e9);
    return learning::measure_choices(measurer, task_, schedules_, clock);
  }
  const TuneTask task_ = splits_task();
  std::vector<Schedule> schedules_;
  std::map<size_t, size_t> calls_;
};

TEST(Quiet, BusyIsWhatIsNotIdleOnTheCoresGiven) {
  const std::string before =
      "cpu  900 0 0 900 0 0 0\ncpu0 100 0 50 800 50 0 0 0 0 0\ncpu1 5 0 5 90 0 0 0\ncpu10 0 0 0 0 "
      "0 0 0\nintr 7\n";
  const std::string after =
      "cpu  990 0 0 990 0 0 0\ncpu0 103 0 51 804 52 0 0 0 0 0\ncpu1 15 0 5 90 0 0 0\ncpu10 0 0 0 9 "
      "0 0 0\nintr 8\n";
  EXPECT_DOUBLE_EQ(learning::busy_share(before, after, {0}), 0.4);
  EXPECT_DOUBLE_EQ(learning::busy_share(before, after, {0, 1}), 0.7);
  EXPECT_DOUBLE_EQ(learning::busy_share(before, after, {10}), 0);
  EXPECT_DOUBLE_EQ(learning::busy_share(before, before, {0}), 0);
  EXPECT_DOUBLE_EQ(learning::busy_share("", "", {0}), 0);
  TuneClock over(0);
  EXPECT_EQ(learning::wait_for_quiet(10, over), 0);
}

// Another load ran while the third schedule was timed.
TEST_F(MeasureChoices, ADisturbedTimeIsMeasuredAgain) {
  const learning::ChoiceTimes t = times({{1e-3}, {0.9e-3}, {40e-3, 1.8e-3}, {2e-3}});
  EXPECT_TRUE(t.complete);
  EXPECT_DOUBLE_EQ(t.seconds.at(2), 1.8e-3);
  EXPECT_EQ(calls_, (std::map<size_t, size_t>{{0, 1}, {1, 1}, {2, 2}, {3, 1}}));
}

TEST_F(MeasureChoices, WhatIsSlowTwiceIsSlow) {
  const learning::ChoiceTimes t = times({{1e-3}, {0.9e-3}, {40e-3, 41e-3}, {2e-3}});
  EXPECT_DOUBLE_EQ(t.seconds.at(2), 40e-3);
}

}  // namespace
}  // namespace heddle::testing
