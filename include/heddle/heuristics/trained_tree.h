// A trained sum of trees with the contents of its file, and the table that answers from it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "heddle/support/decision_tree.h"
#include "heddle/support/json.h"

namespace heddle {

/// A feature with the part of its values that training saw.
struct TrainedFeature {
  std::string name;
  FeatureKind kind = FeatureKind::Numeric;
  double least = 0, most = 0;       ///< numeric and boolean
  std::vector<std::string> values;  ///< categorical
  std::uint64_t seen = 0;           ///< bit i: value i was seen

  bool operator==(const TrainedFeature&) const = default;
};

/// A tree of the sum. Node 0 is the root; the leaves count the rows of `values`.
struct SumTerm {
  std::vector<TreeNode> nodes;
  std::vector<float> values;  ///< for each leaf a row: a number for each choice
};

/// A sum of trees, and the tree of its regions, as training makes them and as their file holds them.
struct TrainedTree {
  std::string heuristic, version;
  std::string machine, target;  ///< where the measurements were made
  std::string date;             ///< of the training, as its caller gave it
  std::int64_t problems = 0, measurements = 0;
  std::uint64_t seed = 0;
  /// How far a number may lie outside of the range that training saw, as a share of it. 0.25
  /// accepts 80..1250 where training saw 100..1000.
  double margin = 0;
  TreeLimits limits;
  Json training;  ///< how it was trained, and its figures on held-out problems

  std::vector<TrainedFeature> features;
  std::vector<std::string> choices;
  std::vector<TreeNode> nodes;  ///< of the tree of regions
  std::vector<TreeLeaf> leaves;
  std::vector<RankedChoice> ranking;
  std::vector<SumTerm> sum;
};

/// Holds a sum of trees and the table that refers to it.
class TreeHolder {
 public:
  /// Throws a User error for more than kMostChoices choices or kMostTerms trees.
  explicit TreeHolder(TrainedTree tree);
  TreeHolder(const TreeHolder&) = delete;
  TreeHolder& operator=(const TreeHolder&) = delete;

  const TreeTable& table() const { return table_; }
  const TrainedTree& tree() const { return tree_; }

 private:
  void add_term(const SumTerm& term);
  TrainedTree tree_;
  std::vector<TreeFeature> features_;
  std::vector<std::vector<std::string_view>> values_;
  std::vector<std::string_view> choices_;
  std::vector<TreeNode> terms_;
  std::vector<std::int32_t> roots_;
  std::vector<float> values_of_terms_;
  TreeTable table_;
};

/// The range that a tree answers for, where training saw least..most. A constant has no margin.
double lowest_accepted(double least, double most, double margin);
double highest_accepted(double least, double most, double margin);

}  // namespace heddle
