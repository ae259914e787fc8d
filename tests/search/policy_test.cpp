// Moves, candidates and the two policies: legal, new, deterministic, and worth their trials.
#include "search/search_testing.h"

namespace heddle::testing {
namespace {

using Factory = std::function<std::unique_ptr<SearchPolicy>(const SearchContext&)>;

Factory evolutionary(EvolutionOptions options = {.population = 64, .generations = 2}) {
  return [options](const SearchContext& c) { return make_evolutionary_policy(c, options); };
}

class Policies : public ::testing::TestWithParam<const char*> {
 protected:
  SearchContext context(const TuneTask& task, uint64_t seed = 1) {
    return {.task = &task,
            .seeds = {task.tmpl.default_config()},
            .model = &model_,
            .seed = seed,
            .features = step_features};
  }
  std::unique_ptr<SearchPolicy> make(const SearchContext& c) {
    return GetParam() == std::string("random") ? make_random_policy(c) : evolutionary()(c);
  }
  NearestModel model_;
};
INSTANTIATE_TEST_SUITE_P(Both, Policies, ::testing::Values("random", "evolutionary"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Policies, ProposeLegalConfigsAndNoneTwice) {
  for (const TuneTask& task : {matmul_task(), softmax_task()}) {
    NearestModel model;
    SearchContext c = context(task);
    c.model = &model;
    auto policy = make(c);
    std::set<uint64_t> seen;
    for (int round = 0; round < 8; ++round) {
      std::vector<Config> batch = policy->propose(16);
      ASSERT_EQ(batch.size(), 16u);
      std::vector<Trial> trials;
      std::vector<TrainingRow> rows;
      for (const Config& x : batch) {
        EXPECT_EQ(task.tmpl.why_invalid(x), "");
        Schedule s = task.tmpl.instantiate(x);
        EXPECT_TRUE(seen.insert(measuring::steps_hash(s)).second)
            << task.name << " round " << round;
        trials.push_back({x, landscape(s, 5)});
        rows.push_back({task.hash(), step_features(task, s), 1 / trials.back().seconds});
      }
      policy->report(trials);
      model.update(rows);
    }
  }
}

TEST_P(Policies, ProposeSeedsFirstAndInOrder) {
  TuneTask task = splits_task();
  SearchContext c = context(task);
  c.seeds = {{{1, 1}}, {{8, 4}}, {{3, 1}}, {{8, 4}}, {{2, 2}}};
  auto policy = make(c);
  std::vector<Config> first = policy->propose(2), then = policy->propose(2);
  EXPECT_EQ(first, (std::vector<Config>{{{1, 1}}, {{8, 4}}}));
  EXPECT_EQ(then[0], (Config{{2, 2}}));  // the illegal and the repeated one are passed over
  ASSERT_EQ(policy->rejections().size(), 1u);
  EXPECT_EQ(policy->rejections()[0].reason, "knob 'x' cannot be 3");
}

TEST_P(Policies, EndOnceTheSpaceIsExhausted) {
  TuneTask task = splits_task();
  auto policy = make(context(task));
  std::set<uint64_t> seen;
  int proposed = 0;
  for (int round = 0; round < 5; ++round) {
    for (const Config& c : policy->propose(5)) {
      ++proposed;
      seen.insert(key_of(task, c));
      policy->report(std::vector<Trial>{{c, 1.0 + unit(key_of(task, c))}});
    }
  }
  EXPECT_EQ(proposed, 12);
  EXPECT_EQ(seen.size(), 12u);
  EXPECT_TRUE(policy->propose(5).empty());
}

TEST_P(Policies, TakeConfigsThatDifferInDeadKnobsForOne) {
  // y matters only where mode is 1: 1 + 3 candidates, not 6.
  TuneTask task = knobs_task({{"mode", {0, 1}}, {"y", {1, 2, 4}}},
                             [](TemplateBuilder& t, const std::vector<Param>& p) {
                               t.when(p[0], 1, [&] { t.stage(1).split(t.stage(1).axis(0), p[1]); });
                             });
  auto policy = make(context(task));
  EXPECT_EQ(policy->propose(10).size(), 4u);
  EXPECT_TRUE(policy->propose(10).empty());
}

TEST_P(Policies, PassOverWhatWasReportedBefore) {
  TuneTask task = splits_task();
  auto policy = make(context(task));
  policy->report(std::vector<Trial>{{{{1, 1}}, 1.0}, {{{8, 4}}, 2.0}});
  std::vector<Config> rest = policy->propose(20);
  EXPECT_EQ(rest.size(), 10u);
  for (const Config& c : rest) {
    EXPECT_NE(c, (Config{{1, 1}}));
    EXPECT_NE(c, (Config{{8, 4}}));
  }
}

TEST_P(Policies, CountWhyConfigsAreRefused) {
  TuneTask task = knobs_task({{"x", {1, 2, 4}}, {"y", {1, 2, 4}}}, [](TemplateBuilder& t,
                                                                      const std::vector<Param>& p) {
    t.stage(1).split(t.stage(1).axis(0), p[0]);
    t.stage(1).split(t.stage(1).axis(1), p[1]);
    Param x = p[0], y = p[1];
    t.require("x and y must not be both large", [x, y](const auto& v) { return v(x) * v(y) <= 4; });
  });
  auto policy = make(context(task));
  EXPECT_EQ(policy->propose(20).size(), 6u);
  ASSERT_EQ(policy->rejections().size(), 1u);
  EXPECT_EQ(policy->rejections()[0].reason, "x and y must not be both large");
  EXPECT_EQ(policy->rejections()[0].count, 3);  // each config once
}

TEST_P(Policies, CountStepsThatDoNotApply) {
  // Legal as far as requirements go; a stage cannot be inlined that is an output.
  TuneTask task =
      knobs_task({{"inline", {0, 1}}}, [](TemplateBuilder& t, const std::vector<Param>& p) {
        t.when(p[0], 1, [&] { t.stage(1).compute_inline(); });
      });
  auto policy = make(context(task));
  EXPECT_EQ(policy->propose(5), (std::vector<Config>{{{0}}}));
  ASSERT_EQ(policy->rejections().size(), 1u);
  EXPECT_NE(policy->rejections()[0].reason.find("B"), std::string::npos);
}

TEST_P(Policies, DependOnSeedAndHistoryAlone) {
  TuneTask task = matmul_task();
  auto run = [&](uint64_t seed, bool cut) {
    NearestModel model;
    SearchContext c = context(task, seed);
    c.model = &model;
    auto policy = make(c);
    std::vector<Config> all;
    std::vector<Trial> history;
    for (int round = 0; round < 4; ++round) {
      std::vector<Trial> trials;
      std::vector<TrainingRow> rows;
      for (const Config& x : policy->propose(12)) {
        Schedule s = task.tmpl.instantiate(x);
        trials.push_back({x, landscape(s, 3)});
        rows.push_back({task.hash(), step_features(task, s), 1 / trials.back().seconds});
        all.push_back(x);
      }
      policy->report(trials);
      model.update(rows);
      history.insert(history.end(), trials.begin(), trials.end());
      if (cut && round == 1) {
        // A new process that read the log, in whatever order it was written.
        policy = make(c);
        std::reverse(history.begin(), history.end());
        policy->report(history);
      }
    }
    return all;
  };
  EXPECT_EQ(run(1, false), run(1, false));
  EXPECT_EQ(run(1, false), run(1, true));
  EXPECT_NE(run(1, false), run(2, false));
}

TEST_P(Policies, GoOnWhenEverythingFails) {
  TuneTask task = splits_task();
  auto policy = make(context(task));
  int proposed = 0;
  for (int round = 0; round < 6; ++round) {
    std::vector<Trial> trials;
    for (const Config& c : policy->propose(3))
      trials.push_back({c, std::numeric_limits<double>::infinity()});
    proposed += static_cast<int>(trials.size());
    policy->report(trials);
  }
  EXPECT_EQ(proposed, 12);
}

TEST(RandomPolicy, DrawsEachConfigAboutEquallyOften) {
  TuneTask task = splits_task();
  std::map<std::vector<int64_t>, int> first;
  for (uint64_t seed = 0; seed < 1200; ++seed) {
    auto policy = make_random_policy({.task = &task, .seed = seed});
    ++first[policy->propose(1)[0].values];
  }
  ASSERT_EQ(first.size(), 12u);
  for (const auto& [config, count] : first) {
    EXPECT_GT(count, 60);
    EXPECT_LT(count, 150);
  }
}

TEST(ConfigMoves, MutationReachesEachKindOfKnob) {
  TuneTask task = softmax_task();
  const std::vector<Knob>& knobs = task.tmpl.knobs();
  ConfigMoves moves(task.tmpl);
  Rng rng(1);
  Config start = task.tmpl.default_config();
  std::vector<std::set<int64_t>> values(knobs.size());
  std::vector<int> near(knobs.size()), far(knobs.size());
  int changed_one = 0, changed_more = 0;
  for (int i = 0; i < 6000; ++i) {
    Config c = moves.mutate(start, rng);
    int changed = 0;
    for (size_t k = 0; k < knobs.size(); ++k) {
      if (c.values[k] == start.values[k]) continue;
      ++changed;
      values[k].insert(c.values[k]);
      auto at = [&](int64_t v) {
        return std::find(knobs[k].values.begin(), knobs[k].values.end(), v) -
               knobs[k].values.begin();
      };
      ++(std::abs(at(c.values[k]) - at(start.values[k])) == 1 ? near : far)[k];
    }
    changed_one += changed == 1;
    changed_more += changed > 1;
  }
  EXPECT_GT(changed_one, 2500);
  EXPECT_GT(changed_more, 1000);
  for (size_t k = 0; k < knobs.size(); ++k) {
    // Every other value is reached, of sizes mostly the next one.
    EXPECT_EQ(values[k].size() + 1, knobs[k].values.size()) << knobs[k].name;
    if (moves.kind(k) == KnobKind::Ordered && knobs[k].values.size() > 3) {
      EXPECT_GT(near[k], far[k]) << knobs[k].name;
    }
  }
}

TEST(ConfigMoves, TellSizesFromAlternatives) {
  TuneTask task = matmul_task();
  ConfigMoves moves(task.tmpl);
  auto kind = [&](const char* name) {
    return moves.kind(static_cast<size_t>(task.tmpl.knob_index(name)));
  };
  EXPECT_EQ(kind("tile_rows"), KnobKind::Ordered);
  EXPECT_EQ(kind("k_block"), KnobKind::Ordered);
  EXPECT_EQ(kind("reduction"), KnobKind::Alternatives);
  EXPECT_EQ(kind("pack_vectors"), KnobKind::Alternatives);
  TuneTask soft = softmax_task();
  ConfigMoves soft_moves(soft.tmpl);
  for (size_t k = 0; k < soft.tmpl.knobs().size(); ++k) {
    const std::string& name = soft.tmpl.knobs()[k].name;
    if (name.ends_with("location")) {
      EXPECT_EQ(soft_moves.kind(k), KnobKind::Alternatives) << name;
    }
  }
}

TEST(ConfigMoves, NeighboursAreOneMoveAway) {
  TuneTask task = knobs_task({{"mode", {0, 1, 2}}, {"x", {1, 2, 4, 8}}, {"one", {7}}},
                             [](TemplateBuilder&, const std::vector<Param>&) {});
  ConfigMoves moves(task.tmpl);
  EXPECT_EQ(moves.neighbours({{0, 2, 7}}),
            (std::vector<Config>{{{1, 2, 7}}, {{2, 2, 7}}, {{0, 1, 7}}, {{0, 4, 7}}}));
}

TEST(ConfigMoves, CrossoverTakesFromBothAndMostlyByGroup) {
  TuneTask task = knobs_task(
      {{"g0.a", {1, 2}}, {"g0.b", {1, 2}}, {"g0.c", {1, 2}}, {"g1.a", {1, 2}}, {"g1.b", {1, 2}}},
      [](TemplateBuilder&, const std::vector<Param>&) {});
  ConfigMoves moves(task.tmpl);
  Rng rng(1);
  Config a{{1, 1, 1, 1, 1}}, b{{2, 2, 2, 2, 2}};
  int whole = 0, mixed = 0;
  for (int i = 0; i < 1000; ++i) {
    Config c = moves.crossover(a, b, rng);
    bool g0 = c.values[0] == c.values[1] && c.values[1] == c.values[2];
    bool g1 = c.values[3] == c.values[4];
    ++(g0 && g1 ? whole : mixed);
  }
  EXPECT_GT(whole, 650);
  EXPECT_GT(mixed, 100);
}

// With the same number of trials, the search finds better configs than random draws.
TEST(EvolutionaryPolicy, BeatsRandomOnMostLandscapes) {
  int better_at_equal = 0, reached_early = 0;
  constexpr int kLandscapes = 10;
  TuneTask task = matmul_task();
  for (uint64_t seed = 0; seed < kLandscapes; ++seed) {
    NearestModel model;
    SearchContext c{.task = &task,
                    .seeds = {task.tmpl.default_config()},
                    .model = &model,
                    .seed = seed,
                    .features = step_features};
    // The model of this test knows less of what it has not seen than trees do: more exploration.
    auto evolution = evolutionary(
        {.population = 64, .generations = 2, .epsilon_begin = 0.5, .epsilon_trials = 300})(c);
    auto random = make_random_policy(c);
    std::vector<double> evolved = run_policy(task, *evolution, &model, seed, 144);
    std::vector<double> drawn = run_policy(task, *random, nullptr, seed, 500);
    better_at_equal += evolved.back() < drawn[143];
    reached_early += evolved.back() <= drawn[499];
  }
  EXPECT_GE(better_at_equal, 9);
  EXPECT_GE(reached_early, 8);
}

TEST(EvolutionaryPolicy, WithoutAModelTriesTheStepsAroundTheBest) {
  TuneTask task = matmul_task();
  Config start = task.tmpl.default_config();
  SearchContext c{.task = &task, .seeds = {start}, .seed = 1};
  auto policy = make_evolutionary_policy(c);
  policy->report(std::vector<Trial>{{start, 1.0}});
  int near = 0;
  std::vector<Config> batch = policy->propose(16);
  for (const Config& x : batch) {
    int differ = 0;
    for (size_t i = 0; i < x.values.size(); ++i) differ += x.values[i] != start.values[i];
    near += differ <= 1;
  }
  EXPECT_GE(near, 8);
  EXPECT_LT(near, 16);  // and some samples from anywhere
}

TEST(EvolutionaryPolicy, AModelOfTheWrongSizeIsABug) {
  struct Short : NearestModel {
    std::vector<double> predict(uint64_t, std::span<const Features>) override { return {1.0}; }
    bool ready() const override { return true; }
  } model;
  TuneTask task = matmul_task();
  SearchContext c{.task = &task, .model = &model, .seed = 1, .features = step_features};
  EXPECT_THROW(evolutionary()(c)->propose(8), Error);
}

TEST(EvolutionaryPolicy, PassesOverWhatCannotBeLowered) {
  TuneTask task = splits_task({1, 2, 4, 8, 16, 32}, {1, 2, 4, 8, 16});
  NearestModel model;
  model.update(std::vector<TrainingRow>{{task.hash(), Features(64, 0.f), 1.0}});
  auto features = [](const TuneTask& t, const Schedule& s) {
    if (s.steps()[0].params[0].value == 8) throw_user_error("no such loop");
    return step_features(t, s);
  };
  SearchContext c{.task = &task, .model = &model, .seed = 1, .features = features};
  EvolutionOptions no_random{.epsilon_begin = 0, .epsilon_end = 0};
  const std::vector<Config> proposed = make_evolutionary_policy(c, no_random)->propose(8);
  EXPECT_EQ(proposed.size(), 8u);
  for (const Config& x : proposed) EXPECT_NE(x.values[0], 8);
}

// Features of candidates are extracted by several threads where they are the usual ones.
TEST(EvolutionaryPolicy, ThreadsChooseWhatOneWouldChoose) {
  TuneTask task = matmul_task();
  const Features any = schedule_features(task.tmpl.static_schedule(), task.args);
  const auto one_by_one = [](const TuneTask& t, const Schedule& schedule) {
    return schedule_features(schedule, t.args);
  };
  std::vector<std::unique_ptr<SearchPolicy>> policies;
  NearestModel model;
  model.update(std::vector<TrainingRow>{{task.hash(), any, 1.0}});
  for (const FeatureFunction& features : {FeatureFunction(one_by_one), FeatureFunction()})
    policies.push_back(make_evolutionary_policy(
        {.task = &task, .model = &model, .seed = 1, .features = features}, {}));
  for (int round = 0; round < 3; ++round) {
    const std::vector<Config> want = policies[0]->propose(8), got = policies[1]->propose(8);
    EXPECT_EQ(want.size(), 8u);
    EXPECT_TRUE(got == want) << "round " << round;
  }
  const std::vector<RejectionCount> want = policies[0]->rejections(),
                                    got = policies[1]->rejections();
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i].count, want[i].count);
}

}  // namespace
}  // namespace heddle::testing
