// The heuristics that are shipped, and what their candidates make of problems.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "heddle/dag/alternatives.h"
#include "heddle/heuristics/collect.h"
#include "heddle/heuristics/constants.h"
#include "heddle/ops/linalg.h"
#include "heddle/schedule/meta_template.h"
#include "heddle/support/error.h"
#include "heddle/target/rule_constants.h"
#include "heuristics/collect/rule_schedules.h"
#include "measure/task/steps_hash.h"

namespace heddle {
namespace {

Target target_of(const Heuristic& h) {
  return Target::parse(h.target_kind == "cuda"    ? "cuda -gpu=h200"
                       : h.name == "tile_product" ? "llvm -mcpu=sapphirerapids -threads=2"
                                                  : "llvm -mcpu=skylake-avx512 -threads=2");
}

// Every choice that a heuristic names must reach schedules, or nothing can be learned of it.
TEST(BuildChoices, EveryHeuristicHasProblemsWithSeveralChoices) {
  for (const Heuristic* h : all_heuristics()) {
    SCOPED_TRACE(h->name);
    Rng rng(7);
    std::size_t most = 0, problems = 0;
    std::string why;
    for (int i = 0; i < 80 && problems < 8; ++i) {
      const DrawnProblem p = h->draw(rng, target_of(*h));
      const BuildOutcome outcome = build_choices(*h, p.outputs, target_of(*h));
      why = outcome.why_not;
      if (outcome.built.empty()) continue;
      const BuiltChoices& built = outcome.built.front();
      ++problems;
      most = std::max(most, built.schedules.size());
      EXPECT_EQ(built.choices.front().first, built.fallback);
      std::set<std::string> ids;
      for (const auto& [id, schedule] : built.choices) {
        EXPECT_TRUE(ids.insert(id).second) << id << " twice";
        EXPECT_EQ(h->id_of(h->choice_of(id)), id);
        EXPECT_LT(schedule, built.schedules.size());
      }
      // A feature that no problem has would make every answer unsure.
      const std::vector<HeuristicFeature> features = h->all_features();
      const std::vector<double> values = h->values_of(built.features);
      for (std::size_t f = 0; f < values.size(); ++f)
        EXPECT_TRUE(std::isfinite(values[f])) << features[f].name << " of " << p.id;
    }
    EXPECT_GT(problems, 0U) << why;
    EXPECT_GE(most, h->of_graphs ? 4U : 5U);
  }
}

// Without them calibration knows nothing of most constants.
TEST(BuildChoices, WhatTheRulesMakeWithOtherConstantsIsMeasured) {
  AutoSchedulerOptions options;
  options.use_records = false;
  options.use_alternatives = false;
  for (const char* name : {"contraction", "reduction", "cuda_reduce_rows"}) {
    SCOPED_TRACE(name);
    const Heuristic& h = heuristic_of(name);
    const Target target = target_of(h);
    int others = 0;
    Rng rng(5);
    for (int problems = 0; problems < 4;) {
      const DrawnProblem p = h.draw(rng, target);
      BuildOutcome outcome = build_choices(h, p.outputs, target);
      if (outcome.built.empty()) continue;
      ++problems;
      const std::vector<size_t> places =
          learning::add_schedules_of_constants(h.of_graphs, outcome.built[0]);
      std::set<uint64_t> made;
      for (const Schedule& s : outcome.built[0].schedules) made.insert(measuring::steps_hash(s));
      for (const ConstantInfo& info : constants_of(target.kind)) {
        for (const double end : {info.low, info.high}) {
          RuleConstants moved;
          set_value(&moved, info, end);
          const uint64_t key = measuring::steps_hash(
              make_template_with(ComputeDag(p.outputs), target, options, rules_with(moved))
                  .static_schedule());
          others += key == measuring::steps_hash(outcome.built[0].schedules[0]) ? 0 : 1;
          EXPECT_TRUE(made.contains(key)) << p.id << " with " << info.name << " = " << end;
        }
      }
      for (const size_t place : places) EXPECT_LT(place, outcome.built[0].schedules.size());
    }
    EXPECT_GT(others, 0);
  }
}

const Heuristic& alternative() { return heuristic_of("alternative"); }

bool has(const BuiltChoices& built, const std::string& id, const std::string& graph) {
  return std::any_of(built.choices.begin(), built.choices.end(), [&](const auto& c) {
    return c.first == id && built.schedules[c.second].dag().alternative().starts_with(graph);
  });
}

// The sum in one go, cut by the template, and cut by the rule are values of one choice.
TEST(BuildChoices, TheThreeFormsOfSplitKAreOneChoice) {
  const Tensor y = ops::matmul(placeholder({128, 16}, f32, "A"), placeholder({16, 128}, f32, "B"));
  const Tensor z =
      ops::matmul(placeholder({128, 16384}, f32, "A"), placeholder({16384, 16}, f32, "B"));
  EXPECT_NE(build_choices(alternative(), {y}, target_of(alternative())).why_not, "");
  const BuildOutcome outcome = build_choices(alternative(), {z}, target_of(alternative()));
  ASSERT_EQ(outcome.built.size(), 1U) << outcome.why_not;
  const BuiltChoices& built = outcome.built.front();
  EXPECT_TRUE(has(built, R"({"form":"split_k","parts_a_core":4})", "split_k(parts=8)@"));
  std::map<std::string, std::size_t> direct;
  for (const auto& [id, schedule] : built.choices) {
    if (built.schedules[schedule].dag().alternative().empty()) direct[id] = schedule;
  }
  ASSERT_TRUE(direct.count(R"({"form":"direct:whole"})") &&
              direct.count(R"({"form":"direct:split_k"})"));
  EXPECT_NE(direct[R"({"form":"direct:whole"})"], direct[R"({"form":"direct:split_k"})"]);
}

std::set<std::string> candidate_ids() {
  std::set<std::string> ids;
  const NamedFeatures features;
  const Choice rule;
  for (const ParameterSet& c : alternative().candidates({FeatureView(features), rule}))
    ids.insert(alternative().id_of(c));
  return ids;
}

TEST(BuildChoices, CandidatesAreTheFormsOfAllRules) {
  for (const std::string id :
       {R"({"form":"direct"})", R"({"form":"direct:whole"})", R"({"form":"direct:split_k"})",
        R"({"form":"collapse"})", R"x({"form":"winograd(tile=4)"})x",
        R"({"form":"split_k","parts_a_core":16})", R"({"form":"pad_product","to":"most"})"})
    EXPECT_EQ(candidate_ids().count(id), 1U) << id;
}

// A rule that is registered anywhere can be learned, by its name.
TEST(BuildChoices, ARuleOfAnotherProgramIsAForm) {
  const std::string id = R"x({"form":"my_rule(by=2,of=5)"})x";
  EXPECT_EQ(candidate_ids().count(id), 0U);
  register_rewrite_rule(
      {.name = "my_rule",
       .parameters = {{"by", {1, 2}}, {"of", {5}}},
       .why_not = [](const RewriteSite&) { return WhyNot::other_kind("this test"); },
       .apply = [](const RewriteSite&) { return std::vector<Tensor>(); },
       .error_growth = [](const RewriteSite&) { return 1.0; },
       .estimate = [](const RewriteSite&, const Target&) { return RewriteEstimate(); }});
  EXPECT_EQ(candidate_ids().count(id), 1U);
  EXPECT_EQ(alternative().id_of(alternative().choice_of(id)), id);
  unregister_rewrite_rule("my_rule");
}

}  // namespace
}  // namespace heddle
