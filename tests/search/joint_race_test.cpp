// The final race of all tasks at once, as the tune loop sees it.
#include <gmock/gmock.h>

#include "schedule/templates/config_moves.h"
#include "search/tune_testing.h"

namespace heddle::testing {
namespace {

/// Says that the last schedule of each task won, and keeps what it was asked.
class FakeJointRace : public JointRace {
 public:
  Verdict race(std::span<const std::vector<Schedule>> given, std::span<const int> where,
               std::span<const size_t> order, double seconds, const TuneClock&) override {
    if (fails) throw_runtime_error("injected");
    Verdict v;
    statics.assign(where.begin(), where.end());
    priority.assign(order.begin(), order.end());
    given_seconds = seconds;
    for (const std::vector<Schedule>& list : given) {
      counts.push_back(list.size());
      v.winners.push_back(static_cast<int>(list.size()) - 1);
      v.results.emplace_back();
      for (size_t i = 0; i < list.size(); ++i) {
        v.results.back().push_back(seconds_of(1e-3 * static_cast<double>(10 - i)));
        v.results.back().back().seconds.assign(9, 1e-3 * static_cast<double>(10 - i));
      }
    }
    v.whole = {.static_seconds = 2e-2, .best_seconds = 1.5e-2, .rounds = 12, .changed = 2};
    v.whole.verdict = verdict;
    return v;
  }

  RaceResult verdict = RaceResult::Faster;
  bool fails = false;
  std::vector<size_t> counts, priority;
  std::vector<int> statics;
  double given_seconds = 0;
};

class JointlyTuned : public Tune {
 protected:
  TuneReport run(FakeMeasurer measurer = FakeMeasurer(on_landscape(3)), const std::string& log = "",
                 std::vector<std::optional<Schedule>> standing = {}) {
    TuneOptions o = options(measurer, 64);
    o.standing = std::move(standing);
    o.joint_race = &race_;
    o.log = log;
    TuneReport report = tune_tasks({matmul_task(), softmax_task()}, o);
    raced_alone_ = measurer.raced.size();
    return report;
  }
  FakeJointRace race_;
  size_t raced_alone_ = 0;
};

TEST_F(JointlyTuned, TheWinnersAreReturnedWithTheirTimesInTheNetwork) {
  const TuneReport report = run();
  EXPECT_EQ(raced_alone_, 0u);
  ASSERT_TRUE(report.network);
  EXPECT_EQ(report.network->verdict, RaceResult::Faster);
  ASSERT_EQ(report.tasks.size(), 2u);
  for (size_t t = 0; t < 2; ++t) {
    ASSERT_GT(race_.counts[t], 1u);
    EXPECT_TRUE(report.tasks[t].improved);
    EXPECT_DOUBLE_EQ(report.tasks[t].static_seconds, 1e-2);
    EXPECT_DOUBLE_EQ(report.tasks[t].best_seconds,
                     1e-3 * (10 - static_cast<double>(race_.counts[t] - 1)));
  }
  EXPECT_THAT(race_.priority, ::testing::UnorderedElementsAre(0, 1));
  EXPECT_LE(race_.counts[0], 4u);
}

TEST_F(JointlyTuned, WithoutProofTheStaticSchedulesAreReturned) {
  race_.verdict = RaceResult::NotProven;
  const TuneReport report = run();
  for (const TaskResult& t : report.tasks) {
    EXPECT_FALSE(t.improved);
    EXPECT_EQ(t.static_seconds, t.best_seconds);
  }
}

/// A schedule of the task that is not the static choice.
Schedule another_schedule(const TuneTask& task) {
  const Template& t = task.tmpl;
  for (const Config& moved : ConfigMoves(t).neighbours(t.default_config())) {
    try {
      Schedule made = t.instantiate(moved);
      if (measuring::steps_hash(made) != measuring::steps_hash(t.static_schedule())) return made;
    } catch (const Error&) {  // not every config is legal
    }
  }
  throw_runtime_error("no other schedule");
}

TEST_F(JointlyTuned, WhatStandsRacesFirstAndStaysWithoutProof) {
  const Schedule planned = another_schedule(matmul_task());
  race_.verdict = RaceResult::NotProven;
  const TuneReport report = run(FakeMeasurer(on_landscape(3)), "", {planned, std::nullopt});
  EXPECT_EQ(race_.statics, (std::vector<int>{1, 0}));
  EXPECT_EQ(measuring::steps_hash(report.tasks[0].schedule), measuring::steps_hash(planned));
  EXPECT_TRUE(report.tasks[0].improved);
  EXPECT_DOUBLE_EQ(report.tasks[0].best_seconds, 1e-2);
  EXPECT_DOUBLE_EQ(report.tasks[0].static_seconds, 9e-3);
  EXPECT_FALSE(report.tasks[1].improved);
}

TEST_F(JointlyTuned, WhatStandsLosesToWhatIsFaster) {
  const Schedule planned = another_schedule(matmul_task());
  const TuneReport report = run(FakeMeasurer(on_landscape(3)), "", {planned, std::nullopt});
  EXPECT_NE(measuring::steps_hash(report.tasks[0].schedule), measuring::steps_hash(planned));
  EXPECT_TRUE(report.tasks[0].improved);
}

TEST_F(JointlyTuned, WhatStandsAndFailsIsDropped) {
  const Schedule planned = another_schedule(matmul_task());
  const uint64_t broken = measuring::steps_hash(planned);
  const auto truth = [broken](const TuneTask&, const Schedule& s) {
    return measuring::steps_hash(s) == broken ? failure(MeasureError::Crash) : seconds_of(1e-3);
  };
  FakeMeasurer measurer(on_landscape(3), truth);
  TuneOptions o = options(measurer, 64);
  o.standing = {planned};
  const TaskResult r = tune_tasks({matmul_task()}, o).tasks[0];
  EXPECT_FALSE(r.improved);
  EXPECT_TRUE(r.dropped);
  EXPECT_GT(r.rounds, 0);
}

TEST_F(JointlyTuned, TheStaticChoiceStandsAsItself) {
  race_.verdict = RaceResult::NotProven;
  const TuneReport report =
      run(FakeMeasurer(on_landscape(3)), "", {matmul_task().tmpl.static_schedule(), std::nullopt});
  EXPECT_EQ(race_.statics, (std::vector<int>{0, 0}));
  EXPECT_FALSE(report.tasks[0].improved);
}

TEST_F(JointlyTuned, EachTaskHasAPlaceForWhatStands) {
  try {
    run(FakeMeasurer(on_landscape(3)), "", {std::nullopt});
    ADD_FAILURE() << "one place for two tasks";
  } catch (const Error& e) {
    EXPECT_THAT(e.message, ::testing::HasSubstr("standing has 1 schedules for 2 tasks"));
  }
}

TEST_F(JointlyTuned, TheLogKnowsWhoWonInTheNetwork) {
  const std::string log = path("joint.jsonl");
  run(FakeMeasurer(on_landscape(3)), log);
  int won = 0, lost = 0;
  for (const Record& r : read_records(log).records) {
    if (r.protocol != "network") continue;
    won += r.verdict == Verdict::Won;
    lost += r.verdict == Verdict::Raced;
  }
  EXPECT_EQ(won, 2);
  EXPECT_EQ(lost, static_cast<int>(race_.counts[0] + race_.counts[1]) - 2);
}

TEST_F(JointlyTuned, ARaceThatFailsIsAProblemAndChangesNothing) {
  race_.fails = true;
  const TuneReport report = run();
  EXPECT_THAT(report.problems, ::testing::Contains(::testing::HasSubstr("injected")));
  for (const TaskResult& t : report.tasks) EXPECT_FALSE(t.improved);
}

// A call of the network is not possible then.
TEST_F(JointlyTuned, WhereAStaticScheduleFailsTasksRaceAlone) {
  const uint64_t broken = measuring::steps_hash(matmul_task().tmpl.static_schedule());
  const auto screen = [broken](const TuneTask&, const Schedule& s) {
    return measuring::steps_hash(s) == broken ? failure(MeasureError::Crash)
                                              : seconds_of(landscape(s, 3));
  };
  const TuneReport report = run(FakeMeasurer(screen));
  EXPECT_TRUE(race_.counts.empty());
  EXPECT_GT(raced_alone_, 0u);
  EXPECT_FALSE(report.network);
  EXPECT_TRUE(report.tasks[0].improved);
}

}  // namespace
}  // namespace heddle::testing
