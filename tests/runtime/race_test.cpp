// The race on a fake clock, and its winner: the first entrant, unless another is clearly faster.
#include "runtime/race/race.h"

#include <gtest/gtest.h>

#include <set>

#include "heddle/support/rng.h"

namespace heddle::racing {
namespace {

std::vector<double> steady(double seconds, size_t n = 20) {
  return std::vector<double>(n, seconds);
}

TEST(Race, ARoundThatIsAbandonedDoesNotCount) {
  Field field(2, {});
  int calls = 0;
  const auto sample = [&](size_t entrant) {
    return ++calls == 6 ? kAbandoned : 1.0 + static_cast<double>(entrant);
  };
  EXPECT_EQ(run(field, sample, {}), 2);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(field.seconds(i), steady(1.0 + static_cast<double>(i), 2));
    EXPECT_EQ(field.out(i), Out::No);
  }
}

TEST(Race, TheFastestWinsIfClearlyFasterThanStatic) {
  EXPECT_EQ(winner_of(std::vector{steady(1.0), steady(0.9), steady(0.8)}), 2);
  EXPECT_EQ(winner_of(std::vector{steady(1.0), steady(1.1)}), 0);
}

TEST(Race, TiesGoToStatic) {
  EXPECT_EQ(winner_of(std::vector{steady(1.0), steady(1.0)}), 0);
  EXPECT_EQ(winner_of(std::vector{steady(1.0), steady(0.998)}), 0);
}

TEST(Race, AMedianThatChanceExplainsIsATie) {
  // Ahead by 2 % in the median, but ahead in half of the rounds only.
  std::vector<double> base = {1.00, 1.00, 1.10, 1.00, 0.90, 1.00, 1.10, 0.90};
  std::vector<double> other = {0.98, 1.05, 0.98, 1.05, 0.98, 1.05, 0.98, 0.95};
  ASSERT_LT(median_of(other), 0.995 * median_of(base));
  EXPECT_FALSE(clearly_faster(other, base));
  EXPECT_EQ(winner_of(std::vector{base, other}), 0);
}

TEST(Race, NoiseCommonToARoundDoesNotHideAGain) {
  // The machine slows down for half of the time; the candidate is ahead in every round.
  std::vector<double> base = {1.0, 1.5, 1.0, 1.5, 1.0, 1.5},
                      other = {0.97, 1.45, 0.97, 1.45, 0.97, 1.45};
  EXPECT_TRUE(clearly_faster(other, base));
}

TEST(Race, FewRoundsNeedALargeGain) {
  EXPECT_FALSE(clearly_faster(steady(0.97, 1), steady(1.0, 1)));
  EXPECT_FALSE(clearly_faster(steady(0.6, 2), steady(1.0, 2)));
  EXPECT_TRUE(clearly_faster(steady(0.45, 1), steady(1.0, 1)));
  EXPECT_FALSE(clearly_faster(std::vector{0.8, 1.0}, std::vector{1.0, 0.9}));
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
  std::vector<double> base = steady(1.0, 7), lucky = {0.9, 0.9, 0.9, 1.1, 0.9, 1.1, 0.9};
  std::vector<std::vector<double>> field(7, lucky);
  field[0] = base;
  EXPECT_EQ(winner_of(field), 0);
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
        std::vector<std::vector<double>> field(racers);
        for (size_t i = 0; i < rounds; ++i) {
          for (std::vector<double>& r : field) r.push_back(draw(1));
        }
        if (winner_of(field) != 0) ++lucky;
        for (double& s : field.back()) s *= 0.9;
        if (winner_of(field) == static_cast<int>(racers) - 1) ++deserved;
      }
      EXPECT_LE(lucky, 0.08 * kRaces) << racers << " racers, " << rounds << " rounds";
      if (rounds >= 16) {
        EXPECT_GE(deserved, 0.7 * kRaces) << racers << " racers, " << rounds << " rounds";
      }
    }
  }
}

TEST(Race, FailuresNeverWin) {
  const std::vector<double> failed;
  EXPECT_EQ(winner_of(std::vector{steady(1.0), failed}), 0);
  EXPECT_EQ(winner_of(std::vector{failed, steady(2.0)}), 1);
  EXPECT_EQ(winner_of(std::vector{failed, steady(2.0), steady(1.0)}), 2);
  EXPECT_EQ(winner_of(std::vector{failed, failed}), -1);
  EXPECT_EQ(winner_of({}), -1);
}

/// Entrants with these seconds, on a machine that gets slower, and that disturbs some calls.
struct Machine {
  std::vector<double> seconds;
  double drift = 0, outliers = 0;
  Rng rng{5};
  double now = 0;
  std::vector<size_t> called = {};

  double call(size_t i) {
    called.push_back(i);
    double taken = seconds.at(i) * (1 + drift * static_cast<double>(called.size()));
    if (rng.chance(outliers)) taken *= 3;
    now += taken;
    return taken;
  }
  int race(Field& field, const Ends& ends = {}) {
    return run(field, [&](size_t i) { return call(i); }, ends);
  }
};

TEST(Race, EachHasOneTurnARoundInAnOrderThatTheSeedDraws) {
  std::vector<std::vector<size_t>> orders;
  for (const uint64_t seed : {1, 1, 2}) {
    Machine machine{{1, 2, 3}};
    Field field(3, {.most_rounds = 8, .seed = seed});
    EXPECT_EQ(machine.race(field), 8);
    std::set<std::vector<size_t>> rounds;
    for (size_t r = 0; r < 8; ++r) {
      const auto begin = machine.called.begin() + static_cast<std::ptrdiff_t>(3 * r);
      rounds.emplace(begin, begin + 3);
      EXPECT_EQ(std::set<size_t>(begin, begin + 3).size(), 3u);
    }
    EXPECT_GT(rounds.size(), 2u);
    orders.push_back(machine.called);
  }
  EXPECT_EQ(orders[0], orders[1]);
  EXPECT_NE(orders[0], orders[2]);
}

TEST(Race, DriftAndOutliersHideNeitherGainsNorTies) {
  int ties = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Rules rules{.most_rounds = 40, .seed = seed};
    Field gain(3, rules), tie(3, rules);
    Machine{{1, 0.9, 1.1}, 2e-3, 0.1, Rng(seed)}.race(gain);
    EXPECT_EQ(gain.winner(), 1) << seed;
    Machine{{1, 1, 1}, 2e-3, 0.1, Rng(seed)}.race(tie);
    ties += tie.winner() == 0;
  }
  EXPECT_GE(ties, 90);
}

TEST(Race, AnEntrantThatFailsMidwayLeavesAndDoesNotWin) {
  Machine machine{{1, 0.5, 0.8}};
  Field field(3, {.most_rounds = 20});
  int calls = 0;
  EXPECT_EQ(run(field,
                [&](size_t i) {
                  const double taken = machine.call(i);
                  return i == 1 && ++calls == 7 ? kFailed : taken;
                },
                {}),
            20);
  EXPECT_EQ(calls, 7);
  EXPECT_EQ(field.out(1), Out::Failed);
  EXPECT_EQ(field.seconds(1).size(), 6u);
  EXPECT_EQ(field.seconds(0).size(), 20u);
  EXPECT_EQ(field.winner(), 2);
}

TEST(Race, ARoundThatTheBudgetCutsDoesNotCount) {
  Machine machine{{1, 0.5}};
  Field field(2, {.most_rounds = 20});
  EXPECT_EQ(machine.race(field, {.over = [&] { return machine.now >= 7; }}), 4);
  EXPECT_EQ(machine.called.size() % 2, 1u);
  EXPECT_EQ(field.seconds(0).size(), 4u);
  EXPECT_EQ(field.seconds(1).size(), 4u);
  Field none(2, {.most_rounds = 20});
  EXPECT_EQ(machine.race(none, {.over = [] { return true; }}), 0);
  EXPECT_EQ(none.winner(), -1);
}

TEST(Race, TheFewestRoundsAreMadeWhateverTheTime) {
  Machine machine{{1, 1}};
  Field field(2, {.most_rounds = 20, .fewest_rounds = 3});
  EXPECT_EQ(machine.race(field, {.enough = [&](int) { return machine.now > 1; }}), 3);
}

TEST(Race, AtALookTheHopelessLeaveAndTheRaceMayBeDecided) {
  Machine machine{{1, 0.8, 1.3, 1.05}};
  Field field(4, {.most_rounds = 50, .looks = {6, 12}, .hopeless = 1.1});
  EXPECT_EQ(machine.race(field, {.decided = [&](int rounds) { return rounds == 12; }}), 12);
  EXPECT_EQ(field.out(2), Out::Slower);
  EXPECT_EQ(field.seconds(2).size(), 6u);
  EXPECT_EQ(field.seconds(3).size(), 12u);
  // Against the leader the default itself may leave.
  Field led(4, {.most_rounds = 5, .hopeless = 1.2, .against = Against::Leader});
  machine.race(led);
  EXPECT_EQ(led.out(0), Out::Slower);
  EXPECT_EQ(led.leader(), 1u);
}

TEST(Race, FieldsThatRaceTogetherFillTheirTurnsWithTheReference) {
  std::vector<Field> fields = {Field(3, {.most_rounds = 10}), Field(2, {.most_rounds = 10}),
                               Field(1, {.most_rounds = 10})};
  std::vector<int> defaults(3, 0);
  const auto call = [&](std::span<const size_t> entrants) {
    for (size_t f = 0; f < 3; ++f) defaults[f] += entrants[f] == 0;
    return std::vector<double>(3, 1.0);
  };
  EXPECT_EQ(run(fields, call, {}), 10);
  EXPECT_EQ(defaults, (std::vector<int>{10, 20, 30}));
  EXPECT_EQ(fields[1].seconds(0).size(), 10u);
  EXPECT_TRUE(fields[2].seconds(0).empty());  // nothing to race
}

TEST(Race, WithOneEntrantThereIsNothingToRaceUnlessItsTimeIsWanted) {
  Machine machine{{1}};
  Field alone(1, {.most_rounds = 5}), timed(1, {.most_rounds = 5, .fewest_racing = 1});
  EXPECT_EQ(machine.race(alone), 0);
  EXPECT_EQ(machine.race(timed), 5);
}

}  // namespace
}  // namespace heddle::racing
