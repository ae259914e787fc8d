// Grows a decision tree: from the root on, each node asks the question after which the answers cost
// least.
#pragma once

#include <climits>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "heddle/support/decision_tree.h"

namespace heddle {

/// A problem that a tree is grown for: the values of its features, and what each answer costs.
struct TreeExample {
  std::span<const double> features, costs;
};

struct TreeExamples {
  std::vector<TreeExample> all;
  std::vector<int> categories;  ///< of each feature the number of its values; 0: a number
  int answers = 0;              ///< each example has so many costs
};

/// The cost of examples that get one answer: the least of the sums of the costs of each.
double cost_of_one_answer(std::span<const double> sums, int examples);

/// The mean, or `low` where no number lies between both.
double middle_between(double low, double high);

struct GrowRules {
  int depth = INT_MAX;
  int leaf_size = 1;  ///< the least number of examples of a leaf
  /// Whether a question is asked that lowers the cost only together with a later one.
  bool look_ahead = false;
  /// Questions that lower the cost by no more than this, with all below them, are taken back.
  double least_gain = 0;
  /// The threshold between two neighbouring values of a number: at least `low`, and below `high`.
  double (*threshold)(double low, double high) = middle_between;
  /// The most thresholds of a number that are tried, at even counts of examples.
  int thresholds = INT_MAX;
  /// The cost of so many examples in one leaf, from the sums of their costs.
  std::function<double(std::span<const double> sums, int examples)> cost = cost_of_one_answer;
};

/// A node of a grown tree. The answer of a leaf is that of least cost.
struct GrownNode {
  TreeNode question;
  std::vector<std::int32_t> examples;  ///< in ascending order
  bool is_leaf() const { return question.feature < 0; }
};

/// The tree over these examples. Node 0 is the root.
std::vector<GrownNode> grow_tree(const TreeExamples& examples, std::vector<std::int32_t> which,
                                 const GrowRules& rules);

/// The question of least cost that leaves at least `leaf_size` examples on either side; a leaf where
/// there is none. Among equal questions, the first feature and the least threshold win.
TreeNode best_split(const TreeExamples& examples, std::span<const std::int32_t> which,
                    const GrowRules& rules);

}  // namespace heddle
