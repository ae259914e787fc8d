#include "heuristics/trees/tree_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "heddle/support/error.h"
#include "heuristics/random_tree.h"
#include "support/files/file.h"

namespace heddle {
namespace {

TEST(TreeFile, WhatIsWrittenIsReadAgain) {
  Rng rng(5);
  for (int round = 0; round < 100; ++round) {
    const TrainedTree tree = random_tree(rng);
    const std::string text = learning::tree_to_text(tree);
    const TrainedTree again = learning::parse_tree(text, "file");
    EXPECT_EQ(learning::tree_to_text(again), text);
    EXPECT_EQ(again.features, tree.features);
    ASSERT_EQ(again.nodes.size(), tree.nodes.size());
    for (std::size_t i = 0; i < tree.nodes.size(); ++i) {
      // To the last bit.
      EXPECT_EQ(again.nodes[i].at_most, tree.nodes[i].at_most);
      EXPECT_EQ(again.nodes[i].one_of, tree.nodes[i].one_of);
    }
  }
}

TEST(TreeFile, FilesAreReadAndWritten) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("tree_file_test." + std::to_string(::getpid())))
          .string();
  Rng rng(6);
  const TrainedTree tree = random_tree(rng);
  learning::write_tree(path, tree);
  EXPECT_EQ(learning::tree_to_text(learning::read_tree(path)), learning::tree_to_text(tree));
  write_file_atomic(path, "{");
  try {
    learning::read_tree(path);
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_TRUE(e.message.starts_with(path + ": this is no tree: ")) << e.message;
    EXPECT_FALSE(e.help.empty());
  }
  std::filesystem::remove(path);
  EXPECT_THROW(learning::read_tree(path), Error);
  EXPECT_EQ(learning::tree_file_name("llvm", "znver3", "matmul"), "llvm-znver3.matmul.tree");
}

constexpr const char* kFile = R"({"heddle_tree": 1, "heuristic": "h", "version": "1", "seed": 1,
"problems": 9, "measurements": 90, "margin": 0.25, "confidence": 0.9, "allowed_loss": 0.02,
"allowed_worst_loss": 0.25,
"features": [{"name": "n", "kind": "numeric", "least": 1.0, "most": 9.0},
             {"name": "l", "kind": "categorical", "values": ["x", "y"], "seen": ["x"]}],
"choices": ["a", "b"],
"nodes": [{"feature": "n", "at_most": 5.5, "yes": 1, "no": 2},
          {"leaf": 0},
          {"feature": "l", "one_of": ["y"], "yes": 3, "no": 4},
          {"leaf": 1}, {"leaf": 2}],
"leaves": [{"verdict": "choice", "support": 3, "regret": 0.1, "regret_bound": 0.2, "loss": 0.1, "loss_bound": 0.2,
            "worst_loss": 0.3, "ranking": [[0, 1.1], [null, 1.2]]},
           {"verdict": "rule", "support": 3, "regret": 0.1, "regret_bound": 0.2, "loss": 0.1, "loss_bound": 0.2,
            "worst_loss": 0.3, "ranking": []},
           {"verdict": "unsure", "support": 3, "regret": 0.1, "regret_bound": 0.2, "loss": 0.1, "loss_bound": 0.2,
            "worst_loss": 0.3, "ranking": [[1, 1.0]]}]})";

/// The error of the file with `from` replaced by `to`.
std::string error_with(const std::string& from, const std::string& to) {
  std::string text = kFile;
  const std::size_t at = text.find(from);
  if (at == std::string::npos) return "the test replaces nothing";
  text.replace(at, from.size(), to);
  try {
    learning::parse_tree(text, "f.tree");
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::User);
    EXPECT_TRUE(e.message.starts_with("f.tree: this is no tree: ")) << e.message;
    return e.message;
  }
  return "none";
}

void expect_error(const std::string& from, const std::string& to, const std::string& part) {
  const std::string said = error_with(from, to);
  EXPECT_NE(said.find(part), std::string::npos) << to << ": " << said;
}

TEST(TreeFile, TheExampleIsATree) {
  EXPECT_EQ(error_with("\"seed\": 1", "\"seed\": 1, \"a key of tomorrow\": {}"), "none");
}

/// The answers of the example in the order of preference for n = `n`, down to the rule.
std::vector<std::string> preferred(const TrainedTree& tree, double n, double l) {
  const TreeHolder holder(tree);
  std::vector<float> predicted(tree.choices.size());
  predict(holder.table(), std::vector<double>{n, l}, predicted);
  std::vector<std::pair<float, std::string>> order;
  for (std::size_t c = 0; c < predicted.size(); ++c)
    if (predicted[c] < 0) order.emplace_back(predicted[c], tree.choices[c]);
  std::sort(order.begin(), order.end());
  std::vector<std::string> names;
  for (const auto& [loss, name] : order) names.push_back(name);
  return names;
}

// A file of format 1 has one tree, whose leaves rank choices.
TEST(TreeFile, AnOldFileGivesTheSameAnswers) {
  using Names = std::vector<std::string>;
  const TrainedTree old = learning::parse_tree(kFile, "f.tree");
  ASSERT_EQ(old.sum.size(), 1u);
  EXPECT_EQ(preferred(old, 2, 0), (Names{"a"}));
  EXPECT_EQ(preferred(old, 7, 1), (Names{}));
  EXPECT_EQ(preferred(old, 7, 0), (Names{"b"}));  // unsure, but it ranks b best
  const TreeHolder holder(old);
  const TreeAnswer answer = answer_of(holder.table(), std::vector<double>{2, 0});
  EXPECT_EQ(answer.verdict, LeafVerdict::Choice);
  EXPECT_EQ(old.choices[static_cast<std::size_t>(answer.choice)], "a");
  EXPECT_NEAR(answer.expected, std::log(1.1 / 1.2), 1e-6);
  EXPECT_EQ(answer_of(holder.table(), std::vector<double>{7, 0}).doubt, Doubt::Leaf);
  // Choices of equal slowdown stay in their order, and none behind the rule is an answer.
  std::string text = kFile;
  const std::string ranking = "[[0, 1.1], [null, 1.2]]";
  text.replace(text.find(ranking), ranking.size(), "[[1, 1.0], [0, 1.0], [null, 1.0]]");
  EXPECT_EQ(preferred(learning::parse_tree(text, "f"), 2, 0), (Names{"b", "a"}));
  text.replace(text.find("[[1, 1.0], [0, 1.0], [null, 1.0]]"), 33,
               "[[1, 1.0], [null, 1.0], [0, 1.1]]");
  EXPECT_EQ(preferred(learning::parse_tree(text, "f"), 2, 0), (Names{"b"}));
  // It is written in the new form.
  const std::string written = learning::tree_to_text(old);
  EXPECT_EQ(learning::tree_to_text(learning::parse_tree(written, "again")), written);
}

TEST(TreeFile, HostileSumsAreErrors) {
  const std::string text = learning::tree_to_text(learning::parse_tree(kFile, "f"));
  const auto expect = [&](const std::string& from, const std::string& to, const char* part) {
    std::string changed = text;
    const std::size_t at = changed.find(from, changed.find("\"sum\""));
    ASSERT_NE(at, std::string::npos) << from;
    changed.replace(at, from.size(), to);
    try {
      learning::parse_tree(changed, "f");
      ADD_FAILURE() << to;
    } catch (const Error& e) {
      EXPECT_NE(e.message.find(part), std::string::npos) << e.message;
    }
  };
  expect("\"leaf\":1", "\"leaf\":3", "no leaf 3");
  expect("\"leaf\":1", "\"leaf\":0", "leaf 0 is there twice");
  expect("\"yes\":3", "\"yes\":1", "'yes' is 1");
  expect("2.0]", "2.0,1.0]", "a row has 3 values for 2 choices");
  expect("2.0]", "1e9]", "no logarithm of a slowdown");
  expect("2.0]", "\"x\"]", "sum[0]");
}

TEST(TreeFile, HostileIndicesAreErrors) {
  // A circle, a node of two parents, one that nothing leads to, one past the end.
  expect_error("\"yes\": 3, \"no\": 4", "\"yes\": 0, \"no\": 4", "nodes[2]: 'yes' is 0");
  expect_error("\"yes\": 3, \"no\": 4", "\"yes\": 2, \"no\": 4", "nodes[2]: 'yes' is 2");
  expect_error("\"yes\": 3, \"no\": 4", "\"yes\": 3, \"no\": 3", "node 3 has two parents");
  expect_error("\"yes\": 1, \"no\": 2", "\"yes\": 2, \"no\": 4", "nodes[1]: no earlier node");
  expect_error("\"yes\": 3, \"no\": 4", "\"yes\": 3, \"no\": 5", "'no' is 5");
  expect_error("\"yes\": 3, \"no\": 4", "\"yes\": 3, \"no\": -1", "'no' is -1");
  expect_error("\"yes\": 3, \"no\": 4", "\"yes\": 3, \"no\": 9223372036854775807", "'no' is 9223");
  expect_error("{\"leaf\": 1}", "{\"leaf\": 3}", "no leaf 3");
  expect_error("{\"leaf\": 1}", "{\"leaf\": -1}", "'leaf' is -1");
  expect_error("{\"leaf\": 1}", "{\"leaf\": 0}", "leaf 0 is there twice");
  expect_error("[1, 1.0]", "[2, 1.0]", "no choice 2");
  expect_error("[1, 1.0]", "[-1, 1.0]", "no choice -1");
  expect_error("\"feature\": \"l\"", "\"feature\": \"m\"", "no feature 'm'");
}

TEST(TreeFile, HostileNumbersAreErrors) {
  expect_error("\"at_most\": 5.5", "\"at_most\": NaN", "tree:");
  expect_error("\"at_most\": 5.5", "\"at_most\": null", "nodes[0]");
  expect_error("\"at_most\": 5.5", "\"at_most\": 1e999", "");
  expect_error("\"at_most\": 5.5", "\"at_most\": \"5\"", "nodes[0]");
  expect_error("\"most\": 9.0", "\"most\": 0.5", "'most' is 0.5");
  expect_error("\"margin\": 0.25", "\"margin\": -1", "'margin' is -1");
  expect_error("[1, 1.0]", "[1, 0.5]", "slowdown");
  expect_error("[1, 1.0]", "[1]", "[choice, slowdown]");
  expect_error("\"support\": 3", "\"support\": -3", "'support' is -3");
  expect_error("\"problems\": 9", "\"problems\": -9", "'problems' is -9");
}

TEST(TreeFile, WhatContradictsItselfIsAnError) {
  expect_error("\"heddle_tree\": 1", "\"heddle_tree\": 3", "format 3");
  expect_error("\"heddle_tree\": 1", "\"heddle_tree\": 2", "least_gain");
  expect_error("\"heddle_tree\": 1, ", "", "heddle_tree");
  expect_error("\"verdict\": \"unsure\"", "\"verdict\": \"perhaps\"", "'perhaps'");
  expect_error("\"one_of\": [\"y\"]", "\"one_of\": [\"z\"]", "no value 'z'");
  expect_error("\"one_of\": [\"y\"]", "\"at_most\": 1", "one_of");
  expect_error("\"values\": [\"x\", \"y\"]", "\"values\": [\"x\", \"x\", \"y\"]", "twice");
  expect_error("\"name\": \"l\"", "\"name\": \"n\"", "'n' is there twice");
  expect_error("\"kind\": \"numeric\"", "\"kind\": \"round\"", "'round'");
}

TEST(TreeFile, HugeFilesAreErrors) {
  // A chain that is deeper than any tree of ours, and more nodes than there may be.
  std::string nodes, leaves;
  const auto chain = [&](int length) {
    nodes.clear();
    leaves.clear();
    for (int i = 0; i < length; ++i) {
      nodes += "{\"feature\": \"n\", \"at_most\": 1, \"yes\": " + std::to_string(2 * i + 1) +
               ", \"no\": " + std::to_string(2 * i + 2) + "}, {\"leaf\": " + std::to_string(i) +
               "}, ";
      leaves +=
          "{\"verdict\": \"rule\", \"support\": 1, \"regret\": 0, \"regret_bound\": 0, "
          "\"loss\": 0, \"loss_bound\": 0, \"worst_loss\": 0, \"ranking\": []}, ";
    }
    nodes += "{\"leaf\": " + std::to_string(length) + "}";
    leaves +=
        "{\"verdict\": \"rule\", \"support\": 1, \"regret\": 0, \"regret_bound\": 0, "
        "\"loss\": 0, \"loss_bound\": 0, \"worst_loss\": 0, \"ranking\": []}";
    std::string text = kFile;
    const std::size_t begin = text.find("\"nodes\"");
    return text.substr(0, begin) + "\"nodes\": [" + nodes + "], \"leaves\": [" + leaves + "]}";
  };
  EXPECT_NO_THROW(learning::parse_tree(chain(64), "f"));
  EXPECT_THROW(learning::parse_tree(chain(65), "f"), Error);
  EXPECT_THROW(learning::parse_tree(chain(40000), "f"), Error);
  std::string values = "\"values\": [\"x\", \"y\"";
  for (int i = 0; i < 63; ++i) values += ", \"v" + std::to_string(i) + "\"";
  expect_error("\"values\": [\"x\", \"y\"", values, "65 values");
}

}  // namespace
}  // namespace heddle
