// A decision tree as a flat list of nodes, and the walk to an answer. Families of kernels have such
// trees on the sizes of a call; heuristics have sums of them with all that training knows
// (TreeTable), and the look-up of the answer for a problem.
//
// The sum predicts, for each choice, the logarithm of its time over that of the fallback, which is
// the hand-written rule. The answer is the choice of least prediction. One more tree divides the
// problems into regions and says, from problems that training held out, where the sum may answer.
//
// A table is a view. Other objects own its arrays: constants of a generated source file
// (heuristics/train/generate_table.h), or the contents of a file (heuristics/trained_tree.h). Answering
// walks from each root to a leaf. It allocates nothing and takes less than a microsecond.
//
//   double features[] = {49, 1024};
//   TreeAnswer answer = answer_of(table, features);
//   if (answer.verdict == LeafVerdict::Choice) use(table.choices[answer.choice]);
//
// It answers *unsure* for a problem unlike those of its training: one with a number outside of the
// range that training saw, an unknown category, or one in a region whose measurements do not show
// that the sum is safe. The caller then decides by other means.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace heddle {

/// Numeric: any finite number. Boolean: 0 or 1. Categorical: an index into the names of the values.
/// An unknown value is NaN.
enum class FeatureKind : std::uint8_t { Numeric, Boolean, Categorical };

/// The most values of a categorical feature: a set of them is a word of bits.
inline constexpr int kMostCategories = 64;
/// The most choices of a table and the most trees of its sum. An answer keeps a number for each of
/// them on the stack.
inline constexpr std::size_t kMostChoices = 1024, kMostTerms = 256;
/// Stands in place of a choice for the fallback, which is the hand-written rule.
inline constexpr std::int32_t kRuleChoice = -1;

/// A feature that a tree asks about.
struct TreeFeature {
  std::string_view name;
  FeatureKind kind = FeatureKind::Numeric;
  /// The values that the tree answers for, both included: the range of the training data and a
  /// margin. Numeric and boolean features.
  double lowest = 0, highest = 0;
  /// Bit i: training saw value i. Categorical features.
  std::uint64_t seen = 0;
  std::span<const std::string_view> values = {};  ///< names of the values of a categorical feature
};

/// A question or a leaf. Node 0 is the root. Children come after their parent, so that each walk
/// ends.
struct TreeNode {
  std::int32_t feature = -1;  ///< -1: a leaf
  /// The next nodes for the answers yes and no. For a leaf, `yes` is its answer: an index into what
  /// the tree is about, such as `TreeTable::leaves` or the kernels of a family.
  std::int32_t yes = 0, no = 0;
  double at_most = 0;  ///< where `one_of` is 0: yes means value <= at_most
  /// Of a categorical feature, and not 0: yes means that the bit of the value is set.
  std::uint64_t one_of = 0;
};

/// Whether a node answers yes for a feature of this value. The value is one that doubt_about
/// accepts.
inline bool says_yes(const TreeNode& node, double value) {
  if (node.one_of == 0) return value <= node.at_most;
  return ((node.one_of >> static_cast<unsigned>(value)) & 1U) != 0;
}

/// The answer of the leaf that a problem reaches from node `root`. `values`: numbers, one for each
/// feature.
template <class Values>
std::int32_t walk(std::span<const TreeNode> nodes, const Values& values, std::int32_t root = 0) {
  const TreeNode* node = &nodes[static_cast<std::size_t>(root)];
  while (node->feature >= 0) {
    const auto value = static_cast<double>(values[static_cast<std::size_t>(node->feature)]);
    // Without a branch, which a processor would guess wrong as often as right.
    const std::int32_t differ = -static_cast<std::int32_t>(says_yes(*node, value));
    node = &nodes[static_cast<std::size_t>(node->no ^ ((node->no ^ node->yes) & differ))];
  }
  return node->yes;
}

/// Throws a User error that names the node where there is no node, where a child does not come after
/// its parent or has two, where a walk is longer than 64 questions, and where a feature or an answer
/// is not below the number that there are.
void check_tree(std::span<const TreeNode> nodes, std::size_t features, std::size_t answers);

/// Choice: that of the sum. Rule: measurements show that the fallback is as good as any. Unsure: too
/// little is known.
enum class LeafVerdict : std::uint8_t { Choice, Rule, Unsure };

/// A choice of a region, with its slowdown.
struct RankedChoice {
  std::int32_t choice = kRuleChoice;  ///< an index into `choices`, or kRuleChoice
  /// The geometric mean of its time over that of the best choice, over the leaf's problems.
  double slowdown = 1;
};

/// Figures about the problems of a region. Regrets are logarithms of ratios of times. Answers are
/// those of sums that had not seen the problem.
struct TreeLeaf {
  LeafVerdict verdict = LeafVerdict::Unsure;
  std::int32_t support = 0;  ///< number of problems of the training data
  /// Mean log(time / best time) of held-out problems, and its upper confidence bound. The time is
  /// that of the fallback unless the verdict is Choice.
  double regret = 0, regret_bound = 0;
  /// Mean log(time / time of the fallback) of held-out problems, its upper confidence bound, and
  /// the largest. The time is that of the sum's answer, whatever the verdict.
  double loss = 0, loss_bound = 0, worst_loss = 0;
  std::int32_t first = 0, count = 0;  ///< the region's part of `ranking`, best first
};

/// The origin of a tree.
struct TreeOrigin {
  std::string_view heuristic, version, machine, target, date;
  std::int64_t problems = 0, measurements = 0;
  std::uint64_t seed = 0;
};

/// The conditions for an answer that is a choice. Losses and gains are shares: 0.02 for 2 %.
struct TreeLimits {
  double confidence = 0;          ///< one-sided confidence of the bounds of regions
  double allowed_loss = 0;        ///< against the fallback, for the bound of the mean
  double allowed_worst_loss = 0;  ///< against the fallback, for each held-out problem
  double least_gain = 0;          ///< of a choice over the fallback, as it is predicted
};

/// A sum of trees and its regions, as arrays that other objects own.
struct TreeTable {
  TreeOrigin origin;
  TreeLimits limits;
  std::span<const TreeFeature> features;
  std::span<const TreeNode> nodes;  ///< of the tree of regions
  std::span<const TreeLeaf> leaves;
  std::span<const RankedChoice> ranking;
  std::span<const std::string_view> choices;
  /// The trees of the sum, one after another. Children and leaves are counted over all of them.
  std::span<const TreeNode> terms;
  std::span<const std::int32_t> roots;  ///< of each tree of the sum, its first node
  /// For each leaf of `terms` a row: a number for each choice.
  std::span<const float> values;
};

/// Why there is no answer.
enum class Doubt : std::uint8_t {
  None,
  Leaf,         ///< the region says so
  Range,        ///< a number outside of the range that training saw
  Category,     ///< a value that training did not see
  NotKnown,     ///< a feature that is NaN
  WrongNumber,  ///< wrong number of features: the problem is not one of this heuristic
};

/// The answer to one problem.
struct TreeAnswer {
  LeafVerdict verdict = LeafVerdict::Unsure;
  std::int32_t choice = kRuleChoice;  ///< an index into `choices` if the verdict is Choice
  Doubt doubt = Doubt::None;
  std::int32_t feature = -1;  ///< the feature in doubt
  std::int32_t leaf = -1;     ///< the region; -1: none was reached
  float expected = 0;         ///< the prediction for the choice: log(time / time of the fallback)
};

/// Why a value is unlike those that training saw; Doubt::None where it is not.
Doubt doubt_about(const TreeFeature& feature, double value);

/// The answer for a problem with these features, in the table's order. Safe to call from several
/// threads. The table is one that training made or that a file's reader has checked.
TreeAnswer answer_of(const TreeTable& tree, std::span<const double> features);

/// The predictions for a problem whose features are all known: of each choice log(time / time of the
/// fallback). `out` has a number for each choice.
void predict(const TreeTable& tree, std::span<const double> features, std::span<float> out);

}  // namespace heddle
