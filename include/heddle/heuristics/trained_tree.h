// A trained sum of trees with the contents of its file, and the table that answers from it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
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

/// The problems of training with the same flags (boolean and categorical features), and the ranges of their numbers. A
/// number that is usual where a flag is set may be one that no problem without it has.
struct SeenKind {
  std::int64_t problems = 0;
  std::vector<double> least, most;  ///< of each feature; equal for flags

  bool operator==(const SeenKind&) const = default;
};
/// The fewest problems of a kind from which something is known of it.
inline constexpr std::int64_t kFewestOfAKind = 8;

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
  /// Only problems of these kinds are answered: none where no kind has enough problems. Not there in files of earlier
  /// versions, which answer all within the ranges of their features.
  std::optional<std::vector<SeenKind>> kinds;
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
  /// The kinds that are answered, for unlike_kinds().
  std::span<const double> kinds() const { return kinds_; }

 private:
  void add_term(const SumTerm& term);
  TrainedTree tree_;
  std::vector<TreeFeature> features_;
  std::vector<std::vector<std::string_view>> values_;
  std::vector<std::string_view> choices_;
  std::vector<TreeNode> terms_;
  std::vector<std::int32_t> roots_;
  std::vector<float> values_of_terms_;
  std::vector<double> kinds_;
  TreeTable table_;
};

/// The ranges of kinds that are answered, for unlike_kinds().
std::vector<double> ranges_of(const std::optional<std::vector<SeenKind>>& kinds,
                              std::span<const TreeFeature> features, double margin);

/// `kinds`: for each kind, the lowest and the highest value that is answered of each feature. Returns -1 where a problem is of
/// one of them, or there are none. Else the feature by which it differs from the kind that it is nearest to, a flag before a
/// number.
std::int32_t unlike_kinds(std::span<const TreeFeature> features, std::span<const double> kinds,
                          std::span<const double> values);

/// The range that a tree answers for, where training saw least..most. A constant has no margin.
double lowest_accepted(double least, double most, double margin);
double highest_accepted(double least, double most, double margin);

}  // namespace heddle
