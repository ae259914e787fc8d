// A sum of regression trees for the losses of all choices against the rule.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/heuristics/dataset.h"
#include "heddle/heuristics/train_tree.h"
#include "heddle/heuristics/trained_tree.h"
#include "heuristics/train/regret_table.h"
#include "support/tree/grow.h"

namespace heddle::learning {

/// Gradient boosting of the squared error (Friedman, "Greedy function approximation: a gradient
/// boosting machine", 2001). A tree asks about the features of a problem; its leaves have a value
/// for each choice, so that a question is asked that tells apart for which problems which choices
/// are fast. The value is the mean of what the trees before left, shrunk by `shrinkage` problems on
/// which nothing is left, times `rate`. Rows of `values` have the choices of `regrets` in their
/// order, without the rule.
std::vector<SumTerm> boost(const HeuristicData& data, const RegretTable& regrets,
                           std::vector<std::int32_t> problems, const TrainOptions& options);

/// The problems as examples for growing a tree. `rows` has `width` costs for each of them.
TreeExamples examples_of(const HeuristicData& data, std::span<const double> rows,
                         std::size_t width);

/// The predictions of the first trees of a sum for one problem, which grow by one tree at a time.
class RunningSum {
 public:
  RunningSum(const HeuristicProblem& problem, std::size_t width)
      : features_(problem.features), predicted_(width, 0.0F) {}
  void add(const SumTerm& term);
  const std::vector<float>& predicted() const { return predicted_; }
  /// The column of `regrets` that is answered: that of least prediction, or 0, the rule, where no
  /// choice is predicted to gain `least_gain` or where the answer is not legal for the problem.
  int answer(const RegretTable& regrets, std::int32_t problem, double least_gain) const;

 private:
  std::span<const double> features_;
  std::vector<float> predicted_;
};

}  // namespace heddle::learning
