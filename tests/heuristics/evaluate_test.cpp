#include "heuristics/train/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "heddle/support/error.h"
#include "heuristics/planted.h"

namespace heddle {
namespace {

using Times = std::vector<double>;

/// rows <= 10: b, or c in another layout than nhwc. Else, up to 100: the rule. Else unsure.
TrainedTree small_tree() {
  TrainedTree tree;
  const HeuristicData data = planted_data();
  tree.heuristic = data.heuristic;
  tree.version = data.version;
  for (const HeuristicFeature& f : data.features) {
    tree.features.push_back({f.name, f.kind, 0, f.kind == FeatureKind::Boolean ? 1. : 1000.,
                             f.values, f.values.empty() ? 0U : 3U});
  }
  tree.choices = {"b", "c", "of another machine"};
  tree.nodes = {
      {0, 1, 2, 10, 0}, {-1, 0, 0, 0, 0}, {0, 3, 4, 100, 0}, {-1, 1, 0, 0, 0}, {-1, 2, 0, 0, 0}};
  tree.ranking = {{2, 1}, {0, 1}, {1, 1.1}};
  tree.sum = {{{{2, 1, 2, 0, 1}, {-1, 0, 0, 0, 0}, {-1, 1, 0, 0, 0}},
               {-0.5F, -0.4F, 0.1F, -0.3F, -0.4F, 0.1F}}};
  TreeLeaf leaf;
  leaf.verdict = LeafVerdict::Choice;
  leaf.count = 3;
  tree.leaves.push_back(leaf);
  leaf.verdict = LeafVerdict::Rule;
  tree.leaves.push_back(leaf);
  leaf.verdict = LeafVerdict::Unsure;
  tree.leaves.push_back(leaf);
  return tree;
}

HeuristicProblem problem(const std::string& id, std::vector<double> features, Times seconds) {
  return {id, std::move(features), std::move(seconds), 0, 0.01};
}

TEST(Evaluate, AMachineLeftOutIsAnsweredByTheOthers) {
  // On the first two machines "b" is twice as fast, on the third one "a", the rule, is.
  std::vector<HeuristicData> logs;
  Rng rng(5);
  for (const auto& [machine, of_b] : {std::pair{"one", 0.5}, {"two", 0.5}, {"three", 2.0}}) {
    HeuristicData data = planted_data();
    data.machine = machine;
    const double seconds = of_b;
    add_problems(
        data, 400, [seconds](const std::vector<double>&) { return Times{1, seconds, 3}; }, rng, 0);
    logs.push_back(std::move(data));
  }
  const auto two = learning::leave_machines_out({logs[0], logs[1]});
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two[0].machine, "one");
  EXPECT_EQ(two[0].worth.problems.size(), 400U);
  EXPECT_NEAR(two[0].worth.tree_over_rule.mean, 0.5, 0.02);
  const auto three = learning::leave_machines_out(logs);
  ASSERT_EQ(three.size(), 3U);
  EXPECT_EQ(three[1].machine, "three");
  EXPECT_NEAR(three[1].worth.tree_over_rule.mean, 2, 0.04) << "the others do not know it";
  EXPECT_NEAR(learning::to_json(two).elements()[1].at("tree_over_rule").as_double(), 0.5, 0.02);
  EXPECT_TRUE(learning::leave_machines_out({logs[0], logs[0]}).empty());
}

TEST(Evaluate, FiguresAreThoseOfTheAnswers) {
  HeuristicData data = planted_data();
  data.problems = {
      problem("1", {5, 0, 0}, {4, 2, 1}),             // b: 2 of the best, half the rule
      problem("2", {5, 0, 1}, {4, kNotMeasured, 8}),  // c, twice the rule
      problem("3", {5, 0, 0}, {4, kNotMeasured, 1}),  // b is missing: the rule
      problem("4", {50, 0, 0}, {4, 2, 4}),            // the rule, 2 of the best
      problem("5", {500, 0, 0}, {4, 1, 4}),           // unsure: the rule, 4 of the best
      problem("6", {5, 0, 2}, {3, 1, 3}),             // a category never seen
      problem("7", {5000, 0, 0}, {3, 3, 3}),          // out of range
  };
  const TreeHolder tree(small_tree());
  const learning::TreeEvaluation e = learning::evaluate_tree(tree, data);
  EXPECT_EQ(e.chose, 2);
  EXPECT_EQ(e.kept_rule, 2);
  EXPECT_EQ(e.unsure_leaf, 1);
  EXPECT_EQ(e.unsure_category, 1);
  EXPECT_EQ(e.unsure_range, 1);
  EXPECT_DOUBLE_EQ(e.unsure_share(), 3.0 / 7);
  EXPECT_EQ(e.faster, 1);
  EXPECT_EQ(e.slower, 1);
  EXPECT_DOUBLE_EQ(e.tree_over_best.mean, std::pow(2.0 * 2 * 4 * 2 * 4 * 3 * 1, 1 / 7.0));
  EXPECT_DOUBLE_EQ(e.tree_over_best.worst, 4);
  EXPECT_EQ(e.tree_over_best.worst_problem, "3");
  EXPECT_DOUBLE_EQ(e.rule_over_best.mean, std::pow(4.0 * 1 * 4 * 2 * 4 * 3 * 1, 1 / 7.0));
  EXPECT_DOUBLE_EQ(e.tree_over_rule.mean, std::pow(0.5 * 2, 1 / 7.0));
  EXPECT_DOUBLE_EQ(e.tree_over_rule.worst, 2);
  EXPECT_EQ(e.tree_over_rule.worst_problem, "2");
}

TEST(Evaluate, WritesATableAndJson) {
  HeuristicData data = planted_data();
  data.problems = {problem("first", {5, 0, 0}, {4, 2, 1}), problem("2", {500, 0, 0}, {4, 1, 4})};
  const TreeHolder tree(small_tree());
  const learning::TreeEvaluation e = learning::evaluate_tree(tree, data);
  EXPECT_EQ(e.to_text(),
            "time over               mean  worst  worst problem\n"
            "--------------------------------------------------\n"
            "best, of the rule      4.000   4.00  first\n"
            "best, of the tree      2.828   4.00  2\n"
            "the rule, of the tree  0.707   1.00  2\n"
            "2 held-out problems: 1 choices, 0 times the rule, 1 unsure (50.0 %: 1 by their leaf, "
            "0 out of range, 0 of unknown category)\n"
            "1 faster than the rule beyond the noise, 0 slower\n"
            "where a choice was answered: 0.607 of the rule's time predicted, 0.500 measured\n");
  const Json json = e.to_json(true);
  EXPECT_DOUBLE_EQ(json.at("tree_over_best").at("worst").as_double(), 4);
  EXPECT_EQ(json.at("rows").size(), 2u);
  EXPECT_EQ(json.at("rows").at(0).at("problem").as_string(), "first");
  EXPECT_EQ(json.at("rows").at(0).at("verdict").as_string(), "choice");
  EXPECT_DOUBLE_EQ(json.at("rows").at(0).at("expected").as_double(), -0.5);
  EXPECT_TRUE(json.at("rows").at(1).at("expected").is_null());
  EXPECT_DOUBLE_EQ(json.at("chosen_measured").as_double(), 0.5);
  EXPECT_FALSE(e.to_json().contains("rows"));
}

TEST(Evaluate, NoProblemsAreNoFigures) {
  const TreeHolder tree(small_tree());
  const learning::TreeEvaluation e = learning::evaluate_tree(tree, planted_data());
  EXPECT_EQ(e.unsure_share(), 0);
  EXPECT_EQ(e.tree_over_best.mean, 1);
  EXPECT_FALSE(e.to_text().empty());
}

TEST(Evaluate, ALogOfAnotherHeuristicIsAnError) {
  const TreeHolder tree(small_tree());
  const auto refused = [&](auto change, const std::string& part) {
    HeuristicData data = planted_data();
    change(data);
    try {
      learning::evaluate_tree(tree, data);
      ADD_FAILURE() << part;
    } catch (const Error& e) {
      EXPECT_NE(e.message.find(part), std::string::npos) << e.message;
      EXPECT_FALSE(e.help.empty());
    }
  };
  refused([](HeuristicData& d) { d.heuristic = "other"; }, "'other'");
  refused([](HeuristicData& d) { d.version = "2"; }, "version '1', and the log of '2'");
  refused([](HeuristicData& d) { d.features.pop_back(); }, "2");
  refused([](HeuristicData& d) { d.features[0].name = "columns"; }, "'columns'");
  refused([](HeuristicData& d) { d.features[2].values[0] = "chwn"; }, "'layout'");
}

// Each answer comes from a tree that did not see the problem.
TEST(Evaluate, CrossEvaluationSeesNoProblemTwice) {
  Rng luck(8);
  HeuristicData data = planted_data();
  Rng rng(1);
  // Only the number of the problem decides, so a tree cannot generalise.
  add_problems(
      data, 60, [&](const auto&) { return luck.chance(0.5) ? Times{1, 3, 9} : Times{3, 1, 9}; },
      rng);
  TrainOptions options;
  options.leaf_size = 1;
  const learning::TreeEvaluation e = learning::cross_evaluate(data, options);
  ASSERT_EQ(e.problems.size(), 60u);
  EXPECT_GT(e.tree_over_best.mean, 1.4);
  for (std::size_t i = 1; i < e.problems.size(); ++i) {
    EXPECT_LT(e.problems[i - 1].id, e.problems[i].id);
  }
  EXPECT_THROW(learning::cross_evaluate(data, options, 1), Error);
}

}  // namespace
}  // namespace heddle
