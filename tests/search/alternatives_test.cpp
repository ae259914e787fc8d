// The search chooses the alternative: every one is tried, the best is found, the others are
// dropped, and records of them are used again.
#include <filesystem>

#include "heddle/records/record_log.h"
#include "schedule/templates/config_moves.h"
#include "search/history.h"
#include "search/search_testing.h"

namespace heddle::testing {
namespace {

TuneTask conv_task() {
  ops::Conv at;
  at.padding = {1};
  at.layout = ops::NHWC;
  Tensor y = ops::conv2d(placeholder({1, 14, 14, 32}, f32, "x"),
                         constant_placeholder({3, 3, 32, 32}, f32, "w"), at);
  return make_task("conv", {y}, test_target());
}

const std::string kBest = "winograd(tile=2)";

/// Winograd's small tile is five times as fast as what the rules choose, everything else slower.
MeasureResult time_of(const TuneTask&, const Schedule& s) {
  const std::string& a = s.dag().alternative();
  const double base = a.starts_with(kBest) ? 1e-4 : a.empty() ? 1e-3 : 5e-4;
  return seconds_of(base * (1 + 0.1 * unit(measuring::steps_hash(s))));
}

class TuneAlternatives : public ::testing::Test {
 protected:
  std::string log_ =
      ::testing::TempDir() + "heddle_alternatives_" + std::to_string(::getpid()) + ".jsonl";
  NearestModel model_;
  void TearDown() override { std::filesystem::remove(log_); }
  TuneOptions options(FakeMeasurer& m, int trials) {
    TuneOptions o;
    o.budget = std::chrono::hours(1);
    o.max_trials = trials;
    o.batch = 16;
    o.warm_start = false;
    o.log = log_;
    o.measurer = &m;
    o.model = &model_;
    o.features = step_features;
    return o;
  }
};

TEST_F(TuneAlternatives, TheBestIsFoundAndTheOthersAreDropped) {
  std::vector<std::string> measured;
  FakeMeasurer m([&](const TuneTask& t, const Schedule& s) {
    const std::string& a = s.dag().alternative();
    measured.push_back(a.substr(0, a.find('@')));
    return time_of(t, s);
  });
  const TuneTask task = conv_task();
  ASSERT_EQ(task.tmpl.num_branches(), 4);
  const TuneReport report = tune_tasks({task}, options(m, 160));
  const TaskResult& best = report.tasks.at(0);
  EXPECT_TRUE(best.schedule.dag().alternative().starts_with(kBest));
  EXPECT_NE(best.schedule.provenance.find(kBest), std::string::npos) << best.schedule.provenance;
  EXPECT_EQ(m.repeated, 0);
  EXPECT_EQ(std::set<std::string>(measured.begin(), measured.end()).size(), 4U) << "each is tried";
  const auto late = std::count_if(measured.end() - 50, measured.end(),
                                  [](const std::string& a) { return a != kBest; });
  EXPECT_LT(late, 10) << "and what is behind no longer";

  // The log says which alternative, and a second run starts where the first ended.
  int of_best = 0;
  for (const Record& r : read_records(log_).records) {
    EXPECT_EQ(r.structural_hash, task.tmpl.dag().structural_hash());
    of_best += r.alternative.starts_with(kBest);
  }
  EXPECT_GT(of_best, 50);
  FakeMeasurer again(time_of);
  const TuneReport second = tune_tasks({task}, options(again, 16));
  EXPECT_TRUE(second.tasks.at(0).schedule.dag().alternative().starts_with(kBest));
  for (uint64_t key : again.keys) EXPECT_FALSE(m.keys.contains(key)) << "measured twice";
}

TEST_F(TuneAlternatives, WhatTheOptionsForbidIsNeitherTriedNorTakenFromTheLog) {
  FakeMeasurer m(time_of);
  tune_tasks({conv_task()}, options(m, 32));
  AutoSchedulerOptions off;
  off.use_alternatives = false;
  const AutoSchedulerOptionsScope scope(off);
  const TuneTask direct = conv_task();
  EXPECT_EQ(direct.tmpl.num_branches(), 1);
  FakeMeasurer other([](const TuneTask& t, const Schedule& s) {
    EXPECT_EQ(s.dag().alternative(), "");
    return time_of(t, s);
  });
  const TuneReport report = tune_tasks({direct}, options(other, 32));
  EXPECT_EQ(report.tasks.at(0).schedule.dag().alternative(), "");
}

// Knobs of the other branches do nothing: no move touches them.
TEST(ConfigMoves, StayWithinTheBranch) {
  const Template t = conv_task().tmpl;
  ConfigMoves moves(t);
  Rng rng(3);
  for (int b = 0; b < t.num_branches(); ++b) {
    const Config c = t.config_of_branch(b, t.branch(b).default_config());
    EXPECT_EQ(t.branch_of(c), b);
    for (int i = 0; i < 50; ++i) {
      const Config to = moves.mutate(c, rng);
      for (size_t k = 1; k < to.values.size(); ++k) {
        if (to.values[k] == c.values[k]) continue;
        EXPECT_EQ(t.branch_of_knob(k), b) << t.knobs()[k].name;
      }
    }
  }
  moves.set_weights({0, 1, 0, 0});
  for (int i = 0; i < 20; ++i) EXPECT_EQ(t.branch_of(moves.random(rng)), 1);
}

}  // namespace
}  // namespace heddle::testing
