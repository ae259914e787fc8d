// Training: a classification tree (Breiman et al., "Classification and Regression Trees", 1984)
// whose objective is regret, not the number of wrong answers.
//
// A choice that takes time t on a problem whose best choice takes b costs log(t / b): nothing where
// the difference is within the noise of the measurement, and log(most_slowdown) at most. Where a
// choice is not legal the rule decides, so it costs what the rule costs. A leaf answers the choice of least mean cost over its problems. The
// rule is one of these choices, so that a leaf can say that the rule is best. A split is the one of
// least total cost.
//
// The depth and the size of leaves are chosen by cross-validation over problems: the smallest tree
// whose regret is not shown to be worse than that of the best. The same held-out answers judge each
// leaf: see `confidence`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/heuristics/dataset.h"
#include "heddle/heuristics/trained_tree.h"

namespace heddle {

/// Options of train_tree().
struct TrainOptions {
  std::uint64_t seed = 1;  ///< draws the folds
  int folds = 5;
  int deepest = 8;  ///< depths from 0 to this one are tried
  std::vector<int> leaf_sizes = {
      4, 8, 16};  ///< least numbers of problems in a leaf, all of which are tried
  /// Problems whose measurements spread more than this are left out, because the least of many
  /// uncertain times is too small.
  double most_noise = 0.15;
  double most_slowdown = 8;   ///< a slower choice counts as this slow
  double least_noise = 0.02;  ///< relative differences below it do not count as errors
  /// One-sided confidence of the bounds for the mean regret and the mean loss of a leaf.
  double confidence = 0.9;
  /// A leaf whose mean time, by its confidence bound, may exceed that of the fallback by more than
  /// this share is unsure.
  double allowed_loss = 0.02;
  /// A leaf with a held-out problem that took this share longer than the fallback is unsure, too.
  double allowed_worst_loss = 0.5;
  /// A leaf says "rule" where the fallback's time, by its confidence bound, exceeds the best by at
  /// most this share.
  double allowed_rule_regret = 0.1;
  double margin = 0.25;  ///< see TrainedTree
  int ranked = 4;        ///< choices in a leaf's ranking
  std::string date;      ///< written to the file, because training reads no clock
};

/// Trains a tree. It is deterministic: the same problems, in any order, and the same options give
/// the same tree. Throws a User error for fewer usable problems than twice the folds, or for
/// options out of their range.
TrainedTree train_tree(const HeuristicData& data, const TrainOptions& options = {});

}  // namespace heddle
