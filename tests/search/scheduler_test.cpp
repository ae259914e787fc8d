// The selection of the task of a round, and the end of a task.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "search/task_scheduler.h"

namespace heddle::testing {
namespace {

TEST(TaskScheduler, GivesEveryTaskARoundFirstTheDearestFirst) {
  search::TaskScheduler s({{.weight = 1, .start_seconds = 1},
                           {.weight = 4, .start_seconds = 0.5},
                           {.weight = 1, .start_seconds = 0},  // its static choice failed
                           {.weight = 1, .start_seconds = 1}});
  std::vector<int> order;
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(s.waiting(), 4 - i);
    order.push_back(s.next());
    s.report(order.back(), 0.1, 1);
  }
  EXPECT_EQ(order, (std::vector<int>{2, 1, 0, 3}));
  EXPECT_EQ(s.waiting(), 0);
}

TEST(TaskScheduler, SmallTasksWaitUntilTheLargeOnesGainLess) {
  search::TaskScheduler s({{.weight = 1, .start_seconds = 1},
                           {.weight = 1, .start_seconds = 0.01},
                           {.weight = 10, .start_seconds = 0.1}},
                          {.patience = 0});
  EXPECT_EQ(s.waiting(), 2);
  std::vector<int> order;
  for (int i = 0; i < 400; ++i) {
    order.push_back(s.next());
    s.report(order.back(), order.back() == 1 ? 0.01 : 1.0 / (order.back() == 2 ? 10 : 1), 1);
  }
  EXPECT_EQ(std::set<int>(order.begin(), order.begin() + 20), (std::set<int>{0, 2}));
  const auto small = std::count(order.begin(), order.end(), 1);
  EXPECT_GE(small, 1);
  EXPECT_LT(small, 20);
}

// Each task is a curve: its time after n rounds.
template <class Curve>
std::vector<int> rounds_of(
    search::TaskScheduler& s, int tasks, int rounds, Curve curve,
    double cost(int) = [](int) { return 1.0; }) {
  std::vector<int> count(static_cast<size_t>(tasks));
  for (int i = 0; i < rounds; ++i) {
    int t = s.next();
    if (t < 0) break;
    int n = ++count[static_cast<size_t>(t)];
    s.report(t, curve(t, n), cost(t));
  }
  return count;
}

TEST(TaskScheduler, PrefersWhatShortensTheNetworkMost) {
  // Alike but for the number of calls: more calls, more rounds.
  search::TaskScheduler s({{.weight = 1, .start_seconds = 1},
                           {.weight = 8, .start_seconds = 1},
                           {.weight = 2, .start_seconds = 1}},
                          {.patience = 0});
  std::vector<int> n = rounds_of(s, 3, 40, [](int, int r) { return 0.5 + 0.5 / r; });
  EXPECT_GT(n[1], n[2]);
  EXPECT_GT(n[2], n[0]);
  EXPECT_GE(n[0], 1);
}

TEST(TaskScheduler, PrefersTheTaskThatStillGains) {
  search::TaskScheduler s({{.start_seconds = 1}, {.start_seconds = 1}}, {.patience = 0});
  std::vector<int> n =
      rounds_of(s, 2, 20, [](int t, int r) { return t == 0 ? 1.0 : 1.0 / (1 + r); });
  // The one that gains is soon so short that what is left of it matters less: but it goes first.
  search::TaskScheduler early({{.start_seconds = 1}, {.start_seconds = 1}},
                              {.alpha = 0.9, .patience = 0});
  rounds_of(early, 2, 4, [](int t, int r) { return t == 0 ? 1.0 : 1.0 - 0.1 * r; });
  EXPECT_EQ(early.next(), 1);
  EXPECT_EQ(n[0] + n[1], 20);
}

TEST(TaskScheduler, HopesForNoMoreThanTheMachineAllows) {
  // Task 0 is close to what the machine can do. Half of the time of task 1 may be saved.
  search::TaskScheduler s({{.start_seconds = 1, .least_seconds = 0.95},
                           {.start_seconds = 1, .least_seconds = 0.5},
                           {.start_seconds = 1}},
                          {.patience = 0});
  const std::vector<int> n = rounds_of(s, 3, 30, [](int, int) { return 1.0; });
  EXPECT_GE(n[0], 1);
  EXPECT_GT(n[1], 3 * n[0]);
  EXPECT_GT(n[2], 3 * n[0]);
  // A least time above a measured one does not end the search for the task.
  search::TaskScheduler wrong({{.start_seconds = 1, .least_seconds = 2}}, {.patience = 0});
  wrong.report(0, 1, 1);
  EXPECT_GT(wrong.promise(0), 0);
}

TEST(TaskScheduler, CountsWhatARoundCosts) {
  search::TaskScheduler s({{.start_seconds = 1}, {.start_seconds = 1}}, {.patience = 0});
  std::vector<int> n = rounds_of(
      s, 2, 40, [](int, int r) { return 0.5 + 0.5 / r; }, [](int t) { return t == 0 ? 1.0 : 5.0; });
  EXPECT_GT(n[0], n[1]);
}

TEST(TaskScheduler, ExpectsOfATaskWhatItsPeersReach) {
  // Task 1 has the FLOP/s of task 0 ahead of it; task 2 is alone.
  auto make = [](int similar) {
    return search::TaskScheduler({{.flops = 1e9, .similar = 0, .start_seconds = 1},
                                  {.flops = 1e9, .similar = similar, .start_seconds = 1},
                                  {.flops = 1e9, .similar = 7, .start_seconds = 1}},
                                 {.patience = 0});
  };
  for (int similar : {0, 5}) {
    search::TaskScheduler s = make(similar);
    for (int r = 0; r < 3; ++r) {
      s.report(0, 0.1, 1);
      s.report(1, 1, 1);
      s.report(2, 1, 1);
    }
    if (similar == 0) {
      EXPECT_GT(s.promise(1), 1.5 * s.promise(2));
    } else {
      EXPECT_EQ(s.promise(1), s.promise(2));
    }
  }
  // After many rounds without catching up it is not like them.
  search::TaskScheduler s = make(0);
  s.report(0, 0.1, 1);
  for (int r = 0; r < 8; ++r) {
    s.report(1, 1, 1);
    s.report(2, 1, 1);
  }
  EXPECT_EQ(s.promise(1), s.promise(2));
}

TEST(TaskScheduler, ConvergesWithoutGains) {
  search::TaskScheduler s({{.start_seconds = 1}, {.start_seconds = 1}}, {.patience = 4});
  std::vector<int> n =
      rounds_of(s, 2, 100, [](int t, int r) { return t == 0 ? 1.0 : std::max(0.5, 1 - 0.1 * r); });
  EXPECT_EQ(n[0], 4);
  EXPECT_EQ(n[1], 10);  // gains until round 5, then as long again
  EXPECT_EQ(s.next(), -1);
}

TEST(TaskScheduler, TakesGainsThatAddUpForGains) {
  // 0.4 % a round: little each time, much in all.
  search::TaskScheduler s({{.start_seconds = 1}}, {.patience = 5});
  std::vector<int> n = rounds_of(s, 1, 40, [](int, int r) { return std::pow(0.996, r); });
  EXPECT_EQ(n[0], 40);
}

TEST(TaskScheduler, LeavesFinishedTasksAlone) {
  search::TaskScheduler s({{.start_seconds = 9}, {.start_seconds = 1}});
  s.finish(0);
  EXPECT_EQ(s.next(), 1);
  EXPECT_TRUE(s.done(0));
  EXPECT_FALSE(s.done(1));
  s.finish(1);
  EXPECT_EQ(s.next(), -1);
}

TEST(TaskScheduler, ATaskOfWhichNothingWorksDoesNotStarveTheOthers) {
  search::TaskScheduler s({{.start_seconds = 0}, {.start_seconds = 1e-3}}, {.patience = 0});
  std::vector<int> n = rounds_of(s, 2, 400, [](int t, int) { return t == 0 ? 0.0 : 1e-3; });
  EXPECT_GT(n[0], n[1]);
  search::TaskScheduler patient({{.start_seconds = 0}, {.start_seconds = 1e-3}}, {.patience = 5});
  rounds_of(patient, 2, 400, [](int t, int r) { return t == 0 ? 0.0 : 1e-3 / r; });
  EXPECT_TRUE(patient.done(0));
}

TEST(TaskScheduler, EndsATaskThatIsProbablyNearEnough) {
  search::TaskScheduler s({{.start_seconds = 1}, {.start_seconds = 1, .near = 0.9}},
                          {.patience = 0, .until = 0.05});
  EXPECT_TRUE(s.done(1));  // by its certificate
  EXPECT_FALSE(s.done(0));
  EXPECT_EQ(s.next(), 0);
  s.report(0, 1, 1, 0.7);
  EXPECT_FALSE(s.done(0));
  s.report(0, 1, 1, 0.81);
  EXPECT_TRUE(s.done(0));
  EXPECT_EQ(s.next(), -1);
  EXPECT_TRUE(s.any_near());
  // Without the option nothing of this counts.
  search::TaskScheduler to_the_end({{.start_seconds = 1, .near = 0.9}}, {.patience = 0});
  to_the_end.report(0, 1, 1, 0.99);
  EXPECT_EQ(to_the_end.next(), 0);
  EXPECT_FALSE(to_the_end.any_near());
}

TEST(TaskScheduler, EndsATaskAtTheLeastTimeThatTheMachineAllows) {
  const auto ends = [](double seconds) {
    search::TaskScheduler s({{.start_seconds = 2, .least_seconds = 1}},
                            {.patience = 0, .until = 0.05});
    s.report(0, seconds, 1, 0.1);
    return s.done(0);
  };
  EXPECT_TRUE(ends(1.04));
  EXPECT_FALSE(ends(1.06));
  EXPECT_TRUE(ends(0.97));
  EXPECT_FALSE(ends(0.5));  // the least time is wrong
}

TEST(TaskScheduler, GoesWhereItIsLeastProbableThatLittleIsLeft) {
  search::TaskScheduler s({{.start_seconds = 1}, {.start_seconds = 1}},
                          {.patience = 0, .until = 0.05});
  s.report(0, 1, 1, 0.7);
  s.report(1, 1, 1, 0.2);
  EXPECT_NEAR(s.promise(0) / s.promise(1), 0.3 / 0.8, 1e-9);
  EXPECT_EQ(s.next(), 1);
}

}  // namespace
}  // namespace heddle::testing
