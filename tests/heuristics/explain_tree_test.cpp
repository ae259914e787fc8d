#include "heuristics/explain_tree.h"

#include <gtest/gtest.h>

#include <cmath>

#include "heddle/heuristics/trained_tree.h"

namespace heddle {
namespace {

TreeLeaf leaf(LeafVerdict verdict, int support, std::int32_t first, std::int32_t count) {
  TreeLeaf out;
  out.verdict = verdict;
  out.support = support;
  out.regret = std::log(1.02);
  out.regret_bound = std::log(1.05);
  out.loss = std::log(0.9);
  out.loss_bound = std::log(0.95);
  out.worst_loss = std::log(1.1);
  out.first = first;
  out.count = count;
  return out;
}

TrainedTree example() {
  TrainedTree tree;
  tree.heuristic = "matmul";
  tree.version = "1";
  tree.machine = "a machine";
  tree.date = "2026-11-22";
  tree.problems = 51;
  tree.measurements = 400;
  tree.margin = 0.25;
  tree.limits = {0.9, 0.02, 0.25, 0.02};
  tree.features = {{"rows", FeatureKind::Numeric, 1, 1000, {}, 0},
                   {"packed", FeatureKind::Boolean, 0, 1, {}, 0},
                   {"layout", FeatureKind::Categorical, 0, 0, {"nhwc", "nchw", "blocked"}, 3}};
  tree.choices = {"tile 6", "tile 4"};
  tree.nodes = {{0, 1, 2, 64.5, 0}, {-1, 0, 0, 0, 0}, {1, 3, 4, 0.5, 0}, {-1, 1, 0, 0, 0},
                {2, 5, 6, 0, 1},    {-1, 2, 0, 0, 0}, {-1, 3, 0, 0, 0}};
  tree.ranking = {{0, 1.012}, {1, 1.054}, {kRuleChoice, 1.1}};
  tree.leaves = {leaf(LeafVerdict::Choice, 41, 0, 3), leaf(LeafVerdict::Rule, 5, 1, 2),
                 leaf(LeafVerdict::Unsure, 1, 1, 1), leaf(LeafVerdict::Unsure, 4, 1, 1)};
  tree.leaves[2].loss_bound = std::log(1.3);
  tree.leaves[3].worst_loss = std::log(1.8);
  const auto log = [](double ratio) { return static_cast<float>(std::log(ratio)); };
  tree.sum = {{{{0, 1, 2, 64.5, 0}, {-1, 0, 0, 0, 0}, {-1, 1, 0, 0, 0}},
               {log(0.9), log(0.95), log(1.1), log(1.05)}},
              {{{1, 1, 2, 0.5, 0}, {-1, 0, 0, 0, 0}, {-1, 1, 0, 0, 0}},
               {log(0.97), log(0.99), log(1.1), log(1.0)}}};
  return tree;
}

constexpr const char* kTitle =
    "tree 'matmul' of version 1: 51 problems, 400 measurements on a machine, 2026-11-22\n";

std::string explained(const std::vector<double>& features) {
  const TreeHolder tree(example());
  return learning::explain_answer(tree.table(), features);
}

TEST(ExplainTree, AChoiceWithItsPathAndItsRunnerUp) {
  EXPECT_EQ(explained({49, 0, 0}),
            std::string(kTitle) +
                "  rows 49 <= 64.5\n"
                "region 0 of 4 (41 problems)\n"
                "  answer: tile 6, by 2 trees 0.873 of the rule's time\n"
                "  decided by: rows 49 (78 %), packed false (22 %)\n"
                "  next: 0.940  tile 4\n"
                "        1.000  the rule\n"
                "  in this region: 1.020 of the best, at most 1.050 (90 % confidence)\n"
                "  against the rule: 0.900, at most 0.950; worst of the held-out "
                "problems 1.100\n"
                "  best on average: 1.012  tile 6\n"
                "                   1.054  tile 4\n"
                "                   1.100  the rule\n");
}

TEST(ExplainTree, ARuleThatStands) {
  EXPECT_EQ(
      explained({100, 0, 0}),
      std::string(kTitle) +
          "  rows 100 > 64.5\n"
          "  packed is false\n"
          "region 1 of 4 (5 problems)\n"
          "  answer: the rule\n"
          "  next: 1.040  tile 4\n"
          "        1.067  tile 6\n"
          "  in this region the rule takes 1.020 of the best, at most 1.050 (90 % confidence)\n"
          "  best on average: 1.054  tile 4\n"
          "                   1.100  the rule\n");
}

TEST(ExplainTree, WhyARegionIsUnsure) {
  const std::string mean = explained({100, 1, 0});
  EXPECT_NE(mean.find("  packed is true\n  layout nhwc is one of {nhwc}\n"), std::string::npos)
      << mean;
  EXPECT_NE(mean.find("region 2 of 4 (1 problem)\n  unsure: its choice may take up to 1.300 of the "
                      "rule's time on average (90 % confidence), and a loss of 2 % is allowed\n"),
            std::string::npos)
      << mean;
  const std::string worst = explained({100, 1, 1});
  EXPECT_NE(worst.find("  layout nchw is none of {nhwc}\n"), std::string::npos) << worst;
  EXPECT_NE(
      worst.find("  unsure: on one held-out problem its choice took 1.800 of the rule's time, "
                 "and a loss of 25 % is allowed\n"),
      std::string::npos)
      << worst;
}

TEST(ExplainTree, WhyAProblemIsUnlikeThoseOfTraining) {
  EXPECT_EQ(
      explained({2000, 0, 0}),
      std::string(kTitle) +
          "  unsure: rows is 2000, outside of 0.8..1250, which training saw with its margin\n");
  EXPECT_EQ(explained({20, 0, 2}),
            std::string(kTitle) +
                "  unsure: layout is blocked, which training never saw: only {nhwc, nchw}\n");
  EXPECT_EQ(explained({20, 0, NAN}), std::string(kTitle) + "  unsure: layout is unknown\n");
  EXPECT_EQ(
      explained({20, 0}),
      std::string(kTitle) + "  unsure: the problem has 2 features, and the tree asks for 3\n");
}

TEST(ExplainTree, OneLineForATable) {
  const TreeHolder tree(example());
  const auto described = [&](const std::vector<double>& features) {
    return learning::describe_answer(tree.table(), answer_of(tree.table(), features), features);
  };
  EXPECT_EQ(described({49, 0, 0}), "region 0 of 4 (41 problems): tile 6, 0.873 of the rule's time");
  EXPECT_EQ(described({100, 0, 0}), "region 1 of 4 (5 problems): the rule");
  EXPECT_EQ(described({100, 1, 0}), "region 2 of 4 (1 problem): unsure");
  EXPECT_EQ(described({20, 0, NAN}), "unsure: layout is unknown");
}

TEST(ExplainTree, TheTreeOfRegions) {
  const TreeHolder tree(example());
  EXPECT_EQ(learning::tree_outline(tree.table()),
            std::string(kTitle) +
                "  rows <= 64.5\n"
                "    region 0 of 4 (41 problems): tile 6 on average; 0.900 of the rule's time, at "
                "most 0.950; 1.020 of the best\n"
                "  rows > 64.5\n"
                "    packed is false\n"
                "      region 1 of 4 (5 problems): the rule, 1.020 of the best\n"
                "    packed is true\n"
                "      layout is one of {nhwc}\n"
                "        region 2 of 4 (1 problem): unsure\n"
                "      layout is none of {nhwc}\n"
                "        region 3 of 4 (4 problems): unsure\n");
}

}  // namespace
}  // namespace heddle
