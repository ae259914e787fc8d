// A tree, its file and its generated table from checked-in measurements, byte for byte.
// HEDDLE_UPDATE_GOLDENS=1 writes them anew.
#include <gtest/gtest.h>

#include <cstdlib>

#include "heddle/heuristics/train_tree.h"
#include "heddle/support/error.h"
#include "heuristics/golden/sample_tree.h"
#include "heuristics/random_tree.h"
#include "heuristics/train/generate_table.h"
#include "heuristics/trees/tree_file.h"
#include "source_dir.h"
#include "support/files/file.h"

namespace heddle {
namespace {

const std::string kFolder = source_dir() + "/tests/heuristics/golden/";

TrainedTree sample_tree() {
  TrainOptions options;
  options.date = "2026-11-22";
  return train_tree(read_heuristic_log(kFolder + "sample.jsonl"), options);
}

void expect_file(const std::string& name, const std::string& text) {
  if (std::getenv("HEDDLE_UPDATE_GOLDENS") != nullptr) write_file_atomic(kFolder + name, text);
  EXPECT_EQ(text, read_file(kFolder + name)) << "HEDDLE_UPDATE_GOLDENS=1 writes " << name;
}

TEST(Golden, TrainingWritesTheTree) {
  expect_file("sample.tree", learning::tree_to_text(sample_tree()));
}

TEST(Golden, AndTheTable) {
  expect_file("sample_tree.h", learning::generate_table(sample_tree(), "sample_tree"));
}

// What the compiler makes of the generated table is what is read from the file.
TEST(Golden, TheTableAnswersAsTheFileDoes) {
  const TreeHolder file(learning::read_tree(kFolder + "sample.tree"));
  const TreeTable& a = file.table();
  const TreeTable& b = trees::sample_tree;
  EXPECT_EQ(a.origin.heuristic, b.origin.heuristic);
  EXPECT_EQ(a.origin.machine, b.origin.machine);
  EXPECT_EQ(a.origin.seed, b.origin.seed);
  EXPECT_EQ(a.limits.allowed_loss, b.limits.allowed_loss);
  Rng rng(3);
  int chosen = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::vector<double> problem = random_problem(file.tree(), rng);
    const TreeAnswer x = answer_of(a, problem), y = answer_of(b, problem);
    ASSERT_EQ(x.verdict, y.verdict);
    ASSERT_EQ(x.doubt, y.doubt);
    ASSERT_EQ(x.leaf, y.leaf);
    ASSERT_EQ(x.feature, y.feature);
    ASSERT_EQ(x.choice, y.choice);
    if (x.verdict != LeafVerdict::Choice) continue;
    const auto c = static_cast<std::size_t>(x.choice);
    ASSERT_EQ(a.choices[c], b.choices[c]);
    ++chosen;
  }
  EXPECT_GT(chosen, 500);
}

TEST(Golden, TheTableIsAConstant) {
  static_assert(!trees::sample_tree.nodes.empty());
  static_assert(trees::sample_tree.origin.version == "1");
}

TEST(Golden, NamesThatAreNoIdentifiersAreErrors) {
  const TrainedTree tree = sample_tree();
  EXPECT_THROW(learning::generate_table(tree, ""), Error);
  EXPECT_THROW(learning::generate_table(tree, "3d"), Error);
  EXPECT_THROW(learning::generate_table(tree, "a-b"), Error);
}

// Texts of a file cannot become code.
TEST(Golden, TextsStayTexts) {
  Rng rng(3);
  TrainedTree tree = random_tree(rng);
  tree.machine = "a\n#error \"b\" \\";
  tree.choices[0] = "\"}; evil\n\xc3\xbc";
  const std::string text = learning::generate_table(tree, "x");
  EXPECT_EQ(text.find("\n#error"), std::string::npos);
  EXPECT_NE(text.find("// machine   a?#error \"b\" ?\n"), std::string::npos);
  EXPECT_NE(text.find(R"("\"}; evil\012\303\274")"), std::string::npos);
}

}  // namespace
}  // namespace heddle
