// The winner when all tasks of a network race at once, with a clock that the tests control.
#include "network/race/variant_race.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "heddle/network/network.h"
#include "heddle/support/error.h"
#include "heddle/support/rng.h"

namespace heddle::network {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;

/// A network whose tasks take these times, by task and variant; it drifts and it is noisy.
struct FakeNetwork {
  std::vector<std::vector<double>> seconds;
  double noise = 0, drift = 0;
  /// What a call takes beyond its tasks.
  std::function<double(std::span<const int>)> extra = {};
  bool right = true;
  bool whole_calls = false;  ///< as on a GPU
  uint64_t seed = 1;

  int calls = 0;
  std::vector<std::vector<int>> called = {};

  JointRace::Verdict race(VariantRaceLimits limits = {}, double budget = 1e9) {
    limits.seconds = 1e9;
    limits.whole_calls = whole_calls;
    Rng rng(seed);
    std::vector<int> counts;
    for (const auto& list : seconds) counts.push_back(static_cast<int>(list.size()));
    const TuneClock clock(budget);
    const auto run = [&](std::span<const int> variants) {
      VariantTimes times;
      const double mood = 1 + drift * ++calls;
      for (size_t t = 0; t < variants.size(); ++t) {
        const bool twice = variants[t] == kTwice;
        const double one = seconds[t].at(twice ? 0 : static_cast<size_t>(variants[t]));
        times.tasks.push_back((twice ? 2 : 1) * one * mood * (1 + noise * rng.uniform_real()));
        times.total += times.tasks.back();
      }
      if (extra) times.total += extra(variants) * mood;
      if (whole_calls) times.tasks.clear();
      called.emplace_back(variants.begin(), variants.end());
      return times;
    };
    return race_variants(
        counts, run, run, [&](std::span<const int>) { return right; }, limits, clock);
  }
};

void expect_fastest_variants(FakeNetwork net) {
  const JointRace::Verdict v = net.race();
  EXPECT_THAT(v.winners, ElementsAre(2, 0, 0, 1));
  EXPECT_EQ(v.whole.verdict, RaceResult::Faster);
  EXPECT_EQ(v.whole.changed, 2);
  EXPECT_NEAR(v.whole.static_seconds, 2.0, 1e-9);
  EXPECT_NEAR(v.whole.best_seconds, 1.75, 1e-9);
  EXPECT_NEAR(v.results[0][0].median(), 1.0, 1e-9);
  EXPECT_NEAR(v.results[0][2].median(), 0.8, 1e-9);
  EXPECT_NEAR(v.results[3][1].median(), 0.25, 1e-9);
}

const std::vector<std::vector<double>> kFourTasks = {
    {1.0, 0.9, 0.8}, {0.5, 0.6}, {0.2}, {0.3, 0.25}};

TEST(VariantRace, EachTaskGetsItsFastestVariant) { expect_fastest_variants({kFourTasks}); }

/// The first and the third task gain, whatever the order of the calls.
void expect_small_gains(FakeNetwork net) {
  for (net.seed = 1; net.seed <= 10; ++net.seed) {
    net.calls = 0;
    const JointRace::Verdict v = net.race();
    EXPECT_THAT(v.winners, ElementsAre(1, 0, 1)) << net.seed;
    EXPECT_EQ(v.whole.verdict, RaceResult::Faster) << net.seed;
  }
}

TEST(VariantRace, SeesSmallGainsThroughDriftAndNoise) {
  expect_small_gains(
      {.seconds = {{1.0, 0.95}, {1.0, 1.05}, {1.0, 0.93, 1.1}}, .noise = 0.1, .drift = 2e-3});
}

TEST(VariantRace, EqualsAreRarelyFaster) {
  int faster = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    FakeNetwork net{{{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}}};
    net.noise = 0.2;
    net.seed = seed;
    faster += net.race({.most_blocks = 30, .seed = seed}).whole.verdict == RaceResult::Faster;
  }
  EXPECT_LE(faster, 20);
}

TEST(VariantRace, WhatGainsAloneAndNotTogetherStaysStatic) {
  FakeNetwork net{{{1.0, 0.8}, {1.0, 0.9}}};
  net.extra = [](std::span<const int> v) { return v[0] + v[1] > 0 ? 0.5 : 0; };
  const JointRace::Verdict v = net.race();
  EXPECT_THAT(v.winners, ElementsAre(0, 0));
  EXPECT_EQ(v.whole.verdict, RaceResult::NotProven);
  EXPECT_EQ(v.whole.best_seconds, v.whole.static_seconds);
}

TEST(VariantRace, TheStrongestMayWinWithoutTheOthers) {
  FakeNetwork net{{{1.0, 0.7}, {1.0, 0.98}}};
  net.extra = [](std::span<const int> v) { return 0.4 * v[1]; };
  const JointRace::Verdict v = net.race();
  EXPECT_THAT(v.winners, ElementsAre(1, 0));
  EXPECT_EQ(v.whole.verdict, RaceResult::Faster);
  EXPECT_EQ(v.whole.changed, 1);
}

/// Variants 0 are what an earlier run chose, and variants 1 the static choices.
JointRace::Verdict race_of_standing(FakeNetwork net) {
  return net.race({.statics = std::vector<int>(net.seconds.size(), 1)});
}

TEST(VariantRace, WhatStandsStaysWhereNothingIsFaster) {
  const JointRace::Verdict v = race_of_standing({{{0.8, 1.0, 0.9}, {0.5, 0.7}}});
  EXPECT_THAT(v.winners, ElementsAre(0, 0));
  EXPECT_EQ(v.whole.verdict, RaceResult::NotProven);
  EXPECT_NEAR(v.whole.standing_seconds, 1.3, 1e-9);
  EXPECT_NEAR(v.whole.best_seconds, 1.3, 1e-9);
  EXPECT_NEAR(v.whole.static_seconds, 1.7, 1e-9);
  EXPECT_GT(v.whole.rounds, 0);
}

TEST(VariantRace, WhatStandsIsBeatenByWhatIsFaster) {
  const JointRace::Verdict v = race_of_standing({{{0.8, 1.0, 0.6}, {0.5, 0.7}}});
  EXPECT_THAT(v.winners, ElementsAre(2, 0));
  EXPECT_EQ(v.whole.verdict, RaceResult::Faster);
  EXPECT_NEAR(v.whole.standing_seconds, 1.3, 1e-9);
  EXPECT_NEAR(v.whole.best_seconds, 1.1, 1e-9);
  EXPECT_NEAR(v.whole.static_seconds, 1.7, 1e-9);
}

TEST(VariantRace, TheStaticChoicesMayBeatWhatStands) {
  const JointRace::Verdict v = race_of_standing({{{1.2, 1.0}, {0.9, 0.7}}});
  EXPECT_THAT(v.winners, ElementsAre(1, 1));
  EXPECT_NEAR(v.whole.standing_seconds, 2.1, 1e-9);
  EXPECT_NEAR(v.whole.best_seconds, 1.7, 1e-9);
  EXPECT_NEAR(v.whole.static_seconds, 1.7, 1e-9);
}

TEST(VariantRace, AStaticChoiceThatIsNotThereDoesNotRace) {
  FakeNetwork net{{{0.8, 0.9}, {0.5, 0.6, 0.4}}};
  const JointRace::Verdict v = net.race({.statics = {1, kNotThere}});
  EXPECT_THAT(v.winners, ElementsAre(0, 2));
  EXPECT_NEAR(v.whole.standing_seconds, 1.3, 1e-9);
  EXPECT_NEAR(v.whole.best_seconds, 1.2, 1e-9);
  EXPECT_EQ(v.whole.static_seconds, 0) << "it is not known";
}

TEST(VariantRace, TheStaticChoicesMayBeatWhatStandsOnlyTogether) {
  FakeNetwork net{{{1.0, 1.0}, {1.0, 1.0}}};
  net.extra = [](std::span<const int> v) { return v[0] + v[1] == 2 ? 0 : 0.5; };
  const JointRace::Verdict v = race_of_standing(net);
  EXPECT_THAT(v.winners, ElementsAre(1, 1));
  EXPECT_EQ(v.whole.verdict, RaceResult::Faster);
  EXPECT_EQ(v.whole.changed, 2);
  EXPECT_NEAR(v.whole.standing_seconds, 2.5, 1e-9);
  EXPECT_NEAR(v.whole.best_seconds, 2.0, 1e-9);
}

TEST(VariantRace, OtherAnswersLose) {
  FakeNetwork net{{{1.0, 0.5}}};
  net.right = false;
  const JointRace::Verdict v = net.race();
  EXPECT_THAT(v.winners, ElementsAre(0));
  EXPECT_EQ(v.whole.verdict, RaceResult::AnswersDiffer);
}

TEST(VariantRace, WithoutTimeNothingIsDecided) {
  FakeNetwork net{{{1.0, 0.5}}};
  const JointRace::Verdict v = net.race({}, 0);
  EXPECT_THAT(v.winners, ElementsAre(0));
  EXPECT_EQ(net.calls, 0);
  EXPECT_EQ(v.results[0][1].error, MeasureError::Cancelled);
  FakeNetwork one{{{1.0}, {2.0}}};
  EXPECT_EQ(one.race().whole.verdict, RaceResult::NothingToRace);
  EXPECT_EQ(one.calls, 0);
}

TEST(VariantRace, WhatCannotWinHasFewTurns) {
  FakeNetwork net{{{1.0, 2.0, 3.0}, {1.0, 1.0}}};
  net.race({.most_blocks = 50});
  int hopeless = 0;
  for (const std::vector<int>& variants : net.called) hopeless += variants[0] > 0;
  EXPECT_LE(hopeless, 12);
}

/// On a GPU a call is timed as a whole.
FakeNetwork whole(std::vector<std::vector<double>> seconds) {
  FakeNetwork net{std::move(seconds)};
  net.whole_calls = true;
  return net;
}

// The time of a task is what a call takes longer that runs it twice.
TEST(WholeCalls, EachTaskGetsItsFastestVariant) { expect_fastest_variants(whole(kFourTasks)); }

TEST(WholeCalls, SeesSmallGainsThroughDriftAndNoise) {
  FakeNetwork net = whole({{1.0, 0.9}, {1.0, 1.1}, {1.0, 0.88, 1.1}});
  net.noise = 0.02;
  net.drift = 1e-4;
  expect_small_gains(net);
}

// From the first round to the last the call changes by about as much as the task takes.
TEST(WholeCalls, TheTimesOfASmallTaskDoNotDriftWithTheCall) {
  FakeNetwork net = whole({{0.02, 0.01}, {1.0}});
  net.drift = 5e-4;
  const JointRace::Verdict v = net.race();
  EXPECT_THAT(v.winners, ElementsAre(1, 0));
  EXPECT_THAT(v.results[0][0].seconds, Each(DoubleNear(0.02, 0.003)));
  EXPECT_THAT(v.results[0][1].seconds, Each(DoubleNear(0.01, 0.003)));
}

TEST(WholeCalls, ATaskThatTheCallHidesHasNoTime) {
  FakeNetwork net = whole({{1.0, 0.9}, {0.0, 0.0}});
  const JointRace::Verdict v = net.race();
  EXPECT_THAT(v.winners, ElementsAre(1, 0));
  for (const MeasureResult& r : v.results[1]) EXPECT_TRUE(r.seconds.empty());
}

TEST(WholeCalls, ATaskRacesBesideTheWinnersBeforeIt) {
  // Either change gains. Together they lose what one has gained.
  FakeNetwork net = whole({{1.0, 0.9}, {1.0, 0.8}});
  net.extra = [](std::span<const int> v) { return v[0] == 1 && v[1] == 1 ? 0.5 : 0; };
  EXPECT_THAT(net.race().winners, ElementsAre(1, 0));
  EXPECT_THAT(net.race({.priority = {1, 0}}).winners, ElementsAre(0, 1));
}

TEST(WholeCalls, ATaskWhoseGainOthersHideStaysStatic) {
  // A kernel that overlaps with a longer one: alone it gains, and the call takes as long.
  FakeNetwork net = whole({{1.0, 0.5}, {2.0, 1.9}});
  net.extra = [](std::span<const int> v) { return v[0] == 1 ? 0.5 : 0; };
  const JointRace::Verdict v = net.race();
  EXPECT_THAT(v.winners, ElementsAre(0, 1));
  EXPECT_EQ(v.whole.changed, 1);
  EXPECT_NEAR(v.whole.best_seconds, 2.9, 1e-9);
}

TEST(WholeCalls, WhatCannotWinHasFewTurns) {
  FakeNetwork net = whole({{1.0, 2.0, 3.0}});
  EXPECT_THAT(net.race().winners, ElementsAre(0));
  EXPECT_EQ(net.calls, 6 * 4);
}

TEST(WholeCalls, WithoutTimeNothingIsDecided) {
  FakeNetwork net = whole({{1.0, 0.5}});
  const JointRace::Verdict v = net.race({}, 0);
  EXPECT_THAT(v.winners, ElementsAre(0));
  EXPECT_EQ(net.calls, 0);
  EXPECT_EQ(v.results[0][1].error, MeasureError::Cancelled);
}

TEST(VariantRace, NetworksOfAGpuThatIsNotHereDoNotRace) {
  const Tensor x = placeholder({64}, f32);
  const Tensor y = compute({64}, [&](Axis i) { return x(i) * 2.f; });
  const Target gpu = Target::parse("cuda -arch=sm_90");
  EXPECT_EQ(make_network_race(Network({y}, gpu)) == nullptr, !gpu.runs_here());
  EXPECT_NE(make_network_race(Network({y})), nullptr);
}

}  // namespace
}  // namespace heddle::network
