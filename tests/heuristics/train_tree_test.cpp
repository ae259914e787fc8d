#include "heddle/heuristics/train_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "heddle/support/error.h"
#include "heuristics/planted.h"
#include "heuristics/train/evaluate.h"
#include "heuristics/trees/tree_file.h"

namespace heddle {
namespace {

using Times = std::vector<double>;

HeuristicData data_of(int count, const PlantedTimes& times, std::uint64_t seed = 1,
                      double noise = 0.005) {
  HeuristicData data = planted_data();
  Rng rng(seed);
  add_problems(data, count, times, rng, noise);
  return data;
}

/// Few rows and packed: b. Many rows in nchw or blocked: c. Else a.
Times planted_rule(const std::vector<double>& f) {
  if (f[0] <= 40) return f[1] != 0 ? Times{2, 1, 2} : Times{1, 2, 2};
  return f[2] >= 1 ? Times{2, 2, 1} : Times{1, 2, 2};
}

TEST(TrainTree, RecoversAPlantedRule) {
  const HeuristicData data = data_of(400, planted_rule);
  const TreeHolder tree(train_tree(data));
  EXPECT_EQ(answer_text(tree.table(), {20, 1, 0}), "b");
  EXPECT_EQ(answer_text(tree.table(), {20, 1, 2}), "b");
  EXPECT_EQ(answer_text(tree.table(), {500, 0, 1}), "c");
  EXPECT_EQ(answer_text(tree.table(), {500, 1, 2}), "c");
  // The fallback is "a": where it is best the tree may name it or keep the rule.
  EXPECT_EQ(answer_text(tree.table(), {20, 0, 1}), "rule");
  EXPECT_EQ(answer_text(tree.table(), {500, 1, 0}), "rule");
  // What is predicted is the logarithm of how much faster: twice.
  const TreeAnswer answer = answer_of(tree.table(), std::vector<double>{20, 1, 0});
  EXPECT_NEAR(answer.expected, std::log(0.5), 0.05);
  // The regions ask what the rule asks.
  const auto& nodes = tree.tree().nodes;
  EXPECT_TRUE(std::any_of(nodes.begin(), nodes.end(), [&](const TreeNode& n) {
    return n.feature == 0 && n.at_most > 30 && n.at_most < 50;
  }));
  EXPECT_TRUE(std::any_of(nodes.begin(), nodes.end(), [](const TreeNode& n) {
    return n.feature == 2 && (n.one_of == 1 || n.one_of == 6);
  }));
  const learning::TreeEvaluation held_out =
      learning::evaluate_tree(tree, data_of(400, planted_rule, 2));
  EXPECT_LT(held_out.tree_over_best.mean, 1.03);
  EXPECT_GT(held_out.rule_over_best.mean, 1.2);
}

// Few rows are usual where "packed" is not set, and no packed problem has them: a tree knows nothing of such ones, though each
// feature is within what training saw of it.
TEST(TrainTree, AnswersOnlyKindsOfProblemsThatItSaw) {
  HeuristicData data = data_of(400, planted_rule);
  std::erase_if(data.problems, [](const HeuristicProblem& p) {
    return p.features[1] != 0 && p.features[0] < 200;
  });
  const TreeHolder tree(train_tree(data));
  const auto unlike = [&](const std::vector<double>& values) {
    return unlike_kinds(tree.table().features, tree.kinds(), values);
  };
  EXPECT_EQ(unlike({20, 0, 1}), -1);
  EXPECT_EQ(unlike({500, 1, 1}), -1);
  EXPECT_EQ(unlike({20, 1, 1}), 0) << "the rows of packed problems";
  EXPECT_EQ(answer_of(tree.table(), std::vector<double>{20, 1, 1}).doubt, Doubt::None);
  const HeuristicData others = data_of(200, planted_rule, 2);
  const auto outside = [](const HeuristicProblem& p) {
    return p.features[1] != 0 && p.features[0] < 150;
  };
  EXPECT_GE(learning::evaluate_tree(tree, others).unsure_range,
            std::ranges::count_if(others.problems, outside));
  // A file keeps the kinds; one without them is answered by the ranges of features alone.
  TrainedTree read = learning::parse_tree(learning::tree_to_text(tree.tree()), "a test");
  EXPECT_EQ(read.kinds, tree.tree().kinds);
  read.kinds.reset();
  EXPECT_EQ(learning::evaluate_tree(TreeHolder(read), others).unsure_range, 0);
}

// The tree with the least evidence: none of its kinds has eight problems.
TEST(TrainTree, WithoutAKindThatItKnowsATreeIsUnsure) {
  const HeuristicData data = data_of(14, planted_rule);
  const TreeHolder tree(train_tree(data));
  ASSERT_TRUE(tree.tree().kinds.has_value());
  ASSERT_TRUE(tree.tree().kinds->empty());
  EXPECT_EQ(learning::evaluate_tree(tree, data).unsure_share(), 1);
  const TrainedTree read = learning::parse_tree(learning::tree_to_text(tree.tree()), "a test");
  EXPECT_EQ(read.kinds, tree.tree().kinds);
  EXPECT_EQ(learning::evaluate_tree(TreeHolder(read), data).unsure_share(), 1);
}

TEST(TrainTree, ARuleOfManyCategoriesIsFound) {
  HeuristicData data = planted_data();
  std::vector<std::string>& values = data.features[2].values;
  values.clear();
  for (int v = 0; v < 20; ++v) values.push_back("v" + std::to_string(v));
  Rng rng(5);
  for (int i = 0; i < 400; ++i) {
    HeuristicProblem p;
    p.id = std::to_string(i);
    const double v = i % 20;
    p.features = {1, 0, v};
    p.seconds = static_cast<int>(v) % 3 == 0 ? Times{2, 1, 3} : Times{1, 2, 3};
    data.problems.push_back(p);
  }
  const TreeHolder tree(train_tree(data));
  EXPECT_EQ(tree.tree().leaves.size(), 2u) << "regions";
  for (int v = 0; v < 20; ++v) {
    EXPECT_EQ(answer_text(tree.table(), {1, 0, 1. * v}), v % 3 == 0 ? "b" : "rule") << v;
  }
}

// Choice b is best on most problems by little, and loses much on the others. Counting errors takes
// b; a counts here.
TEST(TrainTree, TheObjectiveIsRegretAndNotTheNumberOfErrors) {
  HeuristicData data = data_of(300, [](const auto&) { return Times{1.1, 1, 3}; });
  for (std::size_t i = 0; i < data.problems.size(); i += 3) data.problems[i].seconds[1] = 5;
  for (HeuristicProblem& p : data.problems) p.fallback = 2;
  int b_is_best = 0;
  for (const HeuristicProblem& p : data.problems) b_is_best += p.best() == p.seconds[1];
  ASSERT_GE(b_is_best, 200);  // an accuracy objective would answer b
  TrainOptions options;
  options.depth = 0;
  options.region_depth = 0;
  const TreeHolder tree(train_tree(data, options));
  EXPECT_EQ(answer_text(tree.table(), {20, 0, 0}), "a");
}

// Labels flip between choices that differ by less than the noise. Such a tree would split on it.
TEST(TrainTree, TiesAreNoErrors) {
  const HeuristicData data = data_of(300, [](const auto&) { return Times{1, 1.001, 2}; });
  const TrainedTree tree = train_tree(data);
  EXPECT_EQ(tree.nodes.size(), 1u);
  EXPECT_EQ(tree.leaves[0].verdict, LeafVerdict::Rule);
  EXPECT_LT(tree.leaves[0].regret_bound, 0.02);
}

TEST(TrainTree, WhereAChoiceIsMissingTheRuleDecides) {
  // b is twice as fast where it is there, and missing on every second problem.
  int calls = 0;
  const HeuristicData data =
      data_of(100, [&](const auto&) { return Times{2, ++calls % 2 == 0 ? kNotMeasured : 1, 3}; });
  TrainOptions options;
  options.depth = 0;
  EXPECT_EQ(answer_text(TreeHolder(train_tree(data, options)).table(), {10, 0, 0}), "b");
  // A choice that nearly all problems lack is no candidate.
  HeuristicData rare = data_of(60, [](const auto&) { return Times{2, kNotMeasured, 3}; });
  rare.problems[0].seconds[1] = 0.01;
  const TrainedTree without = train_tree(rare);
  EXPECT_TRUE(std::find(without.choices.begin(), without.choices.end(), "b") ==
              without.choices.end());
}

TEST(TrainTree, RowsInAnotherOrderGiveTheSameTree) {
  const HeuristicData data = data_of(200, planted_rule, 1, 0.1);
  std::string header = heuristic_log_header(data).dump() + "\n";
  std::vector<std::string> lines;
  for (const HeuristicProblem& p : data.problems) {
    lines.push_back(heuristic_log_line(data, p).dump() + "\n");
  }
  std::string first;
  Rng rng(9);
  for (int round = 0; round < 4; ++round) {
    std::string text = header;
    for (const std::string& line : lines) text += line;
    const std::string tree = learning::tree_to_text(train_tree(parse_heuristic_log(text, "log")));
    if (round == 0) first = tree;
    EXPECT_EQ(tree, first);
    rng.shuffle(lines);
  }
}

TEST(TrainTree, OutsideOfWhatTrainingSawItIsUnsure) {
  HeuristicData data = data_of(400, planted_rule);
  for (HeuristicProblem& p : data.problems) p.features[0] += 100;  // 101..1124
  for (HeuristicProblem& p : data.problems) {
    if (p.features[2] == 2) p.features[2] = 1;
  }
  TrainOptions options;
  options.margin = 0.25;
  const TreeHolder tree(train_tree(data, options));
  const auto doubt = [&](std::vector<double> features) {
    return answer_of(tree.table(), features).doubt;
  };
  double least = 1e9, most = 0;
  for (const HeuristicProblem& p : data.problems) {
    least = std::min(least, p.features[0]);
    most = std::max(most, p.features[0]);
  }
  EXPECT_EQ(doubt({least, 0, 0}), Doubt::None);
  EXPECT_EQ(doubt({least / 1.25, 0, 0}), Doubt::None);
  EXPECT_EQ(doubt({most * 1.25, 0, 0}), Doubt::None);
  EXPECT_EQ(doubt({least / 1.26, 0, 0}), Doubt::Range);
  EXPECT_EQ(doubt({most * 1.26, 0, 0}), Doubt::Range);
  EXPECT_EQ(doubt({-most, 0, 0}), Doubt::Range);
  EXPECT_EQ(doubt({least, 2, 0}), Doubt::Range);  // no boolean
  EXPECT_EQ(doubt({least, 0, 2}), Doubt::Category);
  EXPECT_EQ(doubt({least, 0, 77}), Doubt::Category);
  EXPECT_EQ(doubt({least, 0, 0.5}), Doubt::Category);
  EXPECT_EQ(doubt({least, 0, kNotMeasured}), Doubt::NotKnown);
  EXPECT_EQ(doubt({kNotMeasured, 0, 0}), Doubt::NotKnown);
  EXPECT_EQ(doubt({least, 0}), Doubt::WrongNumber);
}

TEST(TrainTree, AFeatureWithoutAnySpreadHasNoMargin) {
  HeuristicData data = data_of(100, [](const auto&) { return Times{2, 1, 3}; });
  for (HeuristicProblem& p : data.problems) p.features[0] = 32;
  const TreeHolder tree(train_tree(data));
  EXPECT_EQ(answer_of(tree.table(), std::vector<double>{32, 1, 0}).doubt, Doubt::None);
  EXPECT_EQ(answer_of(tree.table(), std::vector<double>{33, 1, 0}).doubt, Doubt::Range);
}

// What decides between b and the rule is no feature: the mean favours b, single problems do not.
TEST(TrainTree, ALeafThatMayLoseToTheFallbackIsUnsure) {
  Rng luck(8);
  const HeuristicData data =
      data_of(300, [&](const auto&) { return Times{luck.chance(0.45) ? 1 : 2.2, 1.5, 4}; });
  TrainOptions careful;
  careful.allowed_worst_loss = 0.25;
  const TreeHolder tree(train_tree(data, careful));
  const TreeLeaf& leaf = tree.tree().leaves[0];
  ASSERT_EQ(tree.tree().leaves.size(), 1u);
  EXPECT_EQ(leaf.verdict, LeafVerdict::Unsure);
  EXPECT_GT(leaf.worst_loss, std::log1p(0.4));
  EXPECT_EQ(answer_of(tree.table(), std::vector<double>{20, 0, 0}).doubt, Doubt::Leaf);
  TrainOptions bold;
  bold.allowed_worst_loss = 1;
  EXPECT_EQ(answer_text(TreeHolder(train_tree(data, bold)).table(), {20, 0, 0}), "b");
}

// A mean gain that a few problems do not show.
TEST(TrainTree, AGainThatIsNotShownIsNoAnswer) {
  Rng luck(8);
  const PlantedTimes times = [&](const auto&) {
    return Times{1.3 * std::exp(0.5 * luck.normal()), 1.2, 9};
  };
  TrainOptions options;
  options.depth = 0;
  options.region_depth = 0;
  options.allowed_worst_loss = 100;
  EXPECT_NE(train_tree(data_of(12, times), options).leaves[0].verdict, LeafVerdict::Choice);
  const TrainedTree many = train_tree(data_of(1000, times), options);
  EXPECT_EQ(many.leaves[0].verdict, LeafVerdict::Choice);
  EXPECT_LT(many.leaves[0].loss_bound, 0);
}

TEST(TrainTree, RankingsAreInOrderOfExpectedTime) {
  const TreeHolder tree(train_tree(data_of(200, [](const auto&) { return Times{2, 1, 1.5}; })));
  const TreeLeaf& leaf = tree.tree().leaves[0];
  ASSERT_EQ(leaf.count, 4);
  const auto name = [&](int i) {
    const std::int32_t c = tree.tree().ranking[static_cast<std::size_t>(leaf.first + i)].choice;
    return c == kRuleChoice ? "rule" : tree.tree().choices[static_cast<std::size_t>(c)];
  };
  EXPECT_EQ(name(0), "b");
  EXPECT_EQ(name(1), "c");
  EXPECT_EQ(name(2), "rule");  // as fast as "a", which it is
  EXPECT_EQ(name(3), "a");
  EXPECT_NEAR(tree.tree().ranking[0].slowdown, 1, 0.01);
  EXPECT_NEAR(tree.tree().ranking[1].slowdown, 1.5, 0.02);
  EXPECT_NEAR(tree.tree().ranking[2].slowdown, 2, 0.02);
}

TEST(TrainTree, RegionsHaveTheirLeastSupport) {
  TrainOptions options;
  options.region_size = 30;
  const TrainedTree tree = train_tree(data_of(300, planted_rule), options);
  EXPECT_GT(tree.leaves.size(), 1u);
  std::int64_t all = 0;
  for (const TreeLeaf& leaf : tree.leaves) {
    EXPECT_GE(leaf.support, 30);
    all += leaf.support;
  }
  EXPECT_EQ(all, tree.problems);
}

// Where the features say nothing, the rule or nothing is the answer.
TEST(TrainTree, NoiseIsNoAnswer) {
  Rng luck(8);
  const HeuristicData data = data_of(200, [&](const auto&) {
    return Times{1 + luck.uniform_real(), 1 + luck.uniform_real(), 1 + luck.uniform_real()};
  });
  for (const TreeLeaf& leaf : train_tree(data).leaves) EXPECT_NE(leaf.verdict, LeafVerdict::Choice);
}

TEST(TrainTree, ProblemsWithUnknownFeaturesAreLeftOut) {
  HeuristicData data = data_of(200, planted_rule);
  for (std::size_t i = 0; i < 50; ++i) {
    data.problems[i].features[i % 3] = kNotMeasured;
    data.problems[i].seconds = {9, 9, 0.1};
  }
  const TrainedTree tree = train_tree(data);
  EXPECT_EQ(tree.problems, 150);
  EXPECT_EQ(tree.training.at("problems_left_out").as_int(), 50);
  EXPECT_EQ(answer_text(TreeHolder(tree).table(), {20, 1, 0}), "b");
}

TEST(TrainTree, ProblemsOfUncertainTimesAreLeftOut) {
  HeuristicData data = data_of(200, planted_rule);
  for (std::size_t i = 0; i < 100; ++i) {
    data.problems[i].seconds = {9, 9, 0.01};
    data.problems[i].noise = 0.2;
  }
  EXPECT_EQ(train_tree(data).problems, 100);
  EXPECT_EQ(answer_text(TreeHolder(train_tree(data)).table(), {20, 1, 0}), "b");
  TrainOptions all;
  all.most_noise = 1;
  EXPECT_EQ(train_tree(data, all).problems, 200);
}

TEST(TrainTree, TooFewProblemsAndBadOptionsAreErrors) {
  const HeuristicData few = data_of(9, planted_rule);
  EXPECT_THROW(train_tree(few), Error);
  const HeuristicData data = data_of(40, planted_rule);
  const auto refused = [&](auto change) {
    TrainOptions options;
    change(options);
    EXPECT_THROW(train_tree(data, options), Error);
  };
  refused([](TrainOptions& o) { o.folds = 1; });
  refused([](TrainOptions& o) { o.depth = -1; });
  refused([](TrainOptions& o) { o.terms = 0; });
  refused([](TrainOptions& o) { o.rate = 0; });
  refused([](TrainOptions& o) { o.leaf_size = 0; });
  refused([](TrainOptions& o) { o.region_size = 0; });
  refused([](TrainOptions& o) { o.confidence = 1; });
  refused([](TrainOptions& o) { o.margin = kNotMeasured; });
  refused([](TrainOptions& o) { o.ranked = 0; });
}

}  // namespace
}  // namespace heddle
