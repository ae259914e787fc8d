// Training: a sum of regression trees, grown by gradient boosting, that predicts for each choice
// log(time / time of the rule). The choice of least prediction is the answer, if it is predicted to
// gain. Where a choice is not legal the rule decides, so its time counts there.
//
// How many trees the sum has is chosen by cross-validation over problems, by the regret of the
// answers: a choice that takes time t on a problem whose best choice takes b costs log(t / b), and
// nothing where the difference is within the noise of the measurement.
//
// One more tree, for people, is grown on what the sum predicts. It divides the problems into
// regions. The answers of the cross-validation judge each region: see `confidence`.
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
  int terms = 48;        ///< the most trees of the sum
  int depth = 3;         ///< of each tree of the sum
  int leaf_size = 4;     ///< the least number of problems in a leaf of these
  double rate = 0.15;    ///< the share of what is left that a tree explains
  double shrinkage = 4;  ///< so many problems more, on which nothing is left, count in each leaf
  /// A choice is answered where it is predicted to gain this share over the rule.
  double least_gain = 0.02;
  int region_depth = 4, region_size = 16;  ///< of the tree of regions
  /// Problems whose measurements spread more than this are left out, because the least of many
  /// uncertain times is too small.
  double most_noise = 0.15;
  double most_slowdown = 8;   ///< where regrets are summed, a slower choice counts as this slow
  double least_noise = 0.02;  ///< relative differences below it do not count as errors
  /// One-sided confidence of the bounds for the mean regret and the mean loss of a region.
  double confidence = 0.9;
  /// A region whose mean time, by its confidence bound, may exceed that of the fallback by more than
  /// this share is unsure.
  double allowed_loss = 0.02;
  /// A region with a held-out problem that took this share longer than the fallback is unsure, too.
  double allowed_worst_loss = 1;
  /// Such a region says "rule" where the fallback's time, by its confidence bound, exceeds the best
  /// by at most this share.
  double allowed_rule_regret = 0.1;
  double margin = 0.25;  ///< see TrainedTree
  int ranked = 4;        ///< choices in a region's ranking
  std::string date;      ///< written to the file, because training reads no clock
};

/// Trains a sum of trees. It is deterministic: the same problems, in any order, and the same options
/// give the same trees. Throws a User error for fewer usable problems than twice the folds, or for
/// options out of their range.
TrainedTree train_tree(const HeuristicData& data, const TrainOptions& options = {});

}  // namespace heddle
