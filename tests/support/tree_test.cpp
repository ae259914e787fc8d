// Decision trees: the walk, the checks, JSON, text, and how they are grown.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "heddle/support/error.h"
#include "heddle/support/rng.h"
#include "support/tree/grow.h"
#include "support/tree/json.h"
#include "support/tree/outline.h"

namespace heddle {
namespace {

using ::testing::HasSubstr;

// rows <= 64 ? 0 : (layout in {b, c} ? 1 : 2)
const std::vector<TreeNode> kTree = {
    {0, 1, 2, 64, 0}, {.yes = 0}, {1, 3, 4, 0, 0b110}, {.yes = 1}, {.yes = 2}};
const std::vector<FeatureNames> kNames = {{"rows"}, {"layout", {"a", "b", "c"}}};

TEST(Tree, AWalkEndsAtTheAnswer) {
  const auto answer = [](double rows, double layout) {
    return walk(kTree, std::vector<double>{rows, layout});
  };
  EXPECT_EQ(answer(64, 0), 0);
  EXPECT_EQ(answer(65, 1), 1);
  EXPECT_EQ(answer(65, 2), 1);
  EXPECT_EQ(answer(65, 0), 2);
}

TEST(Tree, JsonReadsBack) {
  const Json json = tree_to_json(kTree, kNames);
  const std::vector<TreeNode> again = tree_from_json(Json::parse(json.dump()), kNames, 3);
  EXPECT_EQ(tree_to_json(again, kNames).dump(), json.dump());
  EXPECT_EQ(json.at(2).dump(), R"({"feature":"layout","one_of":["b","c"],"yes":3,"no":4})");
}

std::string error_of(const std::vector<TreeNode>& nodes) {
  try {
    check_tree(nodes, 2, 3);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::User);
    return e.message;
  }
  return "";
}

TEST(Tree, WhatIsNoTreeIsRefused) {
  EXPECT_EQ(error_of(kTree), "");
  EXPECT_THAT(error_of({}), HasSubstr("no nodes"));
  EXPECT_THAT(error_of({{.yes = 3}}), HasSubstr("nodes[0]: there is no leaf 3"));
  EXPECT_THAT(error_of({{0, 0, 1, 1, 0}, {}}), HasSubstr("'yes' is 0, which is no later"));
  EXPECT_THAT(error_of({{0, 1, 2, 1, 0}, {}}), HasSubstr("'no' is 2, which is no later"));
  EXPECT_THAT(error_of({{0, 1, 1, 1, 0}, {}}), HasSubstr("node 1 has two parents"));
  EXPECT_THAT(error_of({{2, 1, 2, 1, 0}, {}, {}}), HasSubstr("there is no feature 2"));
  EXPECT_THAT(error_of({{}, {}}), HasSubstr("nodes[1]: no earlier node leads to it"));
}

TEST(Tree, TheOutlineHasALineForEachAnswer) {
  EXPECT_EQ(outline(
                kTree,
                [](const TreeNode& node, bool yes) {
                  return kNames[static_cast<size_t>(node.feature)].name + (yes ? " yes" : " no");
                },
                [](std::int32_t answer) { return "answer " + std::to_string(answer); }, "."),
            ".rows yes\n.  answer 0\n.rows no\n.  layout yes\n.    answer 1\n.  layout no\n"
            ".    answer 2\n");
}

/// Examples of two numbers from 0 to 3, whose cheap answer a table says.
struct Drawn {
  std::vector<std::vector<double>> features, costs;
  TreeExamples examples;
  std::vector<std::int32_t> all;

  template <class Cheap>
  explicit Drawn(const Cheap& cheap) {
    for (int i = 0; i < 16; ++i) {
      const int x = i % 4, y = i / 4;
      features.push_back({static_cast<double>(x), static_cast<double>(y)});
      costs.push_back({1, 1});
      costs.back()[static_cast<size_t>(cheap(x, y))] = 0;
      all.push_back(i);
    }
    for (size_t i = 0; i < features.size(); ++i) examples.all.push_back({features[i], costs[i]});
    examples.categories = {0, 0};
    examples.answers = 2;
  }

  double cost(const GrowRules& rules) const {
    std::vector<TreeNode> tree;
    for (const GrownNode& n : grow_tree(examples, all, rules)) tree.push_back(n.question);
    check_tree(tree, 2, 2);
    double sum = 0;
    for (size_t i = 0; i < features.size(); ++i)
      sum += costs[i][static_cast<size_t>(walk(tree, features[i]))];
    return sum;
  }
};

TEST(GrowTree, LookingAheadFindsWhatNeedsTwoQuestions) {
  const Drawn either([](int x, int y) { return (x < 2) != (y < 2) ? 1 : 0; });
  EXPECT_EQ(either.cost({}), 8) << "no question helps by itself";
  EXPECT_EQ(either.cost({.look_ahead = true}), 0);
  EXPECT_EQ(either.cost({.look_ahead = true, .least_gain = 8}), 8);
}

TEST(GrowTree, LeavesAreAsLargeAsTheRulesSay) {
  const Drawn corner([](int x, int y) { return x == 0 && y == 0 ? 1 : 0; });
  EXPECT_EQ(corner.cost({.look_ahead = true}), 0);
  EXPECT_EQ(corner.cost({.leaf_size = 2, .look_ahead = true}), 1);
  EXPECT_EQ(corner.cost({.depth = 1, .look_ahead = true}), 1);
}

TEST(GrowTree, FewThresholdsAreAtEvenCounts) {
  // Of the thresholds of x behind 0, 1 and 2, that behind half of the examples alone is tried.
  const Drawn first([](int x, int) { return x == 0 ? 1 : 0; });
  EXPECT_EQ(first.cost({.depth = 1}), 0);
  EXPECT_EQ(first.cost({.depth = 1, .thresholds = 2}), 4);
  const Drawn half([](int x, int) { return x < 2 ? 1 : 0; });
  EXPECT_EQ(half.cost({.depth = 1, .thresholds = 2}), 0);
}

TEST(GrowTree, AnotherObjectiveAsksOtherQuestions) {
  // x tells the two answers apart, y how much they cost together.
  Drawn drawn([](int x, int) { return x < 2 ? 1 : 0; });
  for (size_t i = 0; i < drawn.costs.size(); ++i) {
    for (double& cost : drawn.costs[i]) cost += drawn.features[i][1] < 2 ? 10 : 0;
  }
  const auto asked = [&](const GrowRules& rules) {
    return best_split(drawn.examples, drawn.all, rules).feature;
  };
  EXPECT_EQ(asked({}), 0);
  EXPECT_EQ(asked({.cost =
                       [](std::span<const double> sums, int examples) {
                         return -(sums[0] * sums[0] + sums[1] * sums[1]) / examples;
                       }}),
            1);
}

TEST(GrowTree, WithoutLimitsEachTreeOfDistinctExamplesIsPerfect) {
  Rng rng(5);
  for (int round = 0; round < 50; ++round) {
    std::vector<int> table;
    for (int i = 0; i < 16; ++i) table.push_back(rng.chance(0.5) ? 1 : 0);
    const Drawn drawn([&](int x, int y) { return table[static_cast<size_t>(4 * y + x)]; });
    EXPECT_EQ(drawn.cost({.look_ahead = true}), 0);
  }
}

}  // namespace
}  // namespace heddle
