// The evaluator, compared with an independent one that reads the tree's file.
#include "heddle/support/decision_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "heddle/heuristics/trained_tree.h"
#include "heuristics/random_tree.h"
#include "heuristics/trees/tree_file.h"

namespace heddle {
namespace {

struct NaiveAnswer {
  std::string verdict, choice;
};

const Json* named(const Json& list, const std::string& name) {
  for (const Json& item : list.elements()) {
    if (item.at("name").as_string() == name) return &item;
  }
  return nullptr;
}

std::size_t index_of(const Json& list, const Json* item) {
  return static_cast<std::size_t>(item - list.elements().data());
}

bool holds(const Json& names, const std::string& name) {
  const auto& all = names.elements();
  return std::any_of(all.begin(), all.end(), [&](const Json& n) { return n.as_string() == name; });
}

bool accepted(const Json& file, const Json& feature, double value) {
  if (std::isnan(value)) return false;
  if (feature.at("kind").as_string() == "categorical") {
    const auto& values = feature.at("values").elements();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (value == static_cast<double>(i)) return holds(feature.at("seen"), values[i].as_string());
    }
    return false;
  }
  double low = feature.at("least").as_double(), high = feature.at("most").as_double();
  const double factor = 1 + file.at("margin").as_double();
  if (feature.at("kind").as_string() == "numeric" && low != high) {
    low = low > 0 ? low / factor : low * factor;
    high = high > 0 ? high * factor : high / factor;
  }
  return value >= low && value <= high;
}

/// The leaf that a problem reaches in a list of nodes.
std::size_t leaf_of(const Json& file, const Json& nodes, const std::vector<double>& problem) {
  const Json& features = file.at("features");
  const Json* node = &nodes.at(0);
  while (!node->contains("leaf")) {
    const Json* feature = named(features, node->at("feature").as_string());
    const double value = problem[index_of(features, feature)];
    bool yes = false;
    if (const Json* set = node->find("one_of")) {
      yes = holds(*set, feature->at("values").at(static_cast<std::size_t>(value)).as_string());
    } else {
      yes = value <= node->at("at_most").as_double();
    }
    node = &nodes.at(static_cast<std::size_t>(node->at(yes ? "yes" : "no").as_int()));
  }
  return static_cast<std::size_t>(node->at("leaf").as_int());
}

NaiveAnswer naive(const Json& file, const std::vector<double>& problem) {
  for (std::size_t f = 0; f < problem.size(); ++f) {
    if (!accepted(file, file.at("features").at(f), problem[f])) return {"unsure", ""};
  }
  const Json& leaf = file.at("leaves").at(leaf_of(file, file.at("nodes"), problem));
  NaiveAnswer answer{leaf.at("verdict").as_string(), ""};
  if (answer.verdict != "choice") return answer;
  answer.verdict = "rule";
  double least = -std::log1p(file.at("least_gain").as_double());
  for (std::size_t c = 0; c < file.at("choices").size(); ++c) {
    double predicted = 0;
    for (const Json& term : file.at("sum").elements())
      predicted += term.at("values").at(leaf_of(file, term.at("nodes"), problem)).at(c).as_double();
    if (predicted >= least) continue;
    least = predicted;
    answer = {"choice", file.at("choices").at(c).as_string()};
  }
  return answer;
}

TEST(DecisionTree, AnswersAsTheFileSays) {
  Rng rng(11);
  int answered = 0;
  for (int round = 0; round < 200; ++round) {
    const TreeHolder tree(random_tree(rng));
    const Json file = Json::parse(learning::tree_to_text(tree.tree()));
    for (int i = 0; i < 50; ++i) {
      const std::vector<double> problem = random_problem(tree.tree(), rng);
      const NaiveAnswer expected = naive(file, problem);
      const TreeAnswer answer = answer_of(tree.table(), problem);
      const char* verdicts[] = {"choice", "rule", "unsure"};
      ASSERT_EQ(verdicts[static_cast<int>(answer.verdict)], expected.verdict);
      ASSERT_EQ(answer.doubt == Doubt::None, expected.verdict != "unsure");
      if (expected.verdict != "choice") continue;
      ASSERT_EQ(tree.table().choices[static_cast<std::size_t>(answer.choice)], expected.choice);
      ++answered;
    }
  }
  EXPECT_GT(answered, 500);
}

// A value on a threshold belongs to the side of yes.
TEST(DecisionTree, AThresholdItselfIsYes) {
  TrainedTree tree;
  tree.features = {{"n", FeatureKind::Numeric, 0, 10, {}, 0}};
  tree.nodes = {{0, 1, 2, 5.5, 0}, {-1, 0, 0, 0, 0}, {-1, 1, 0, 0, 0}};
  tree.leaves.resize(2);
  const TreeHolder holder(tree);
  EXPECT_EQ(answer_of(holder.table(), std::vector<double>{5.5}).leaf, 0);
  EXPECT_EQ(answer_of(holder.table(), std::vector<double>{std::nextafter(5.5, 6)}).leaf, 1);
}

}  // namespace
}  // namespace heddle
