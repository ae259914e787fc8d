// Evaluation of a tree: its time beside that of the best choice and of the rule, on problems that
// it was not trained on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/heuristics/dataset.h"
#include "heddle/heuristics/train_tree.h"
#include "heddle/support/decision_tree.h"
#include "heddle/support/json.h"

namespace heddle::learning {

/// The answer for one held-out problem. Where the tree is unsure, `seconds` is the fallback's time.
struct EvaluatedProblem {
  std::string id;
  double best = 0, rule = 0, seconds = 0, noise = 0;
  std::int32_t choice = kRuleChoice;  ///< an index into HeuristicData::choices
  LeafVerdict verdict = LeafVerdict::Unsure;
  Doubt doubt = Doubt::None;
  double expected = 0;  ///< where a choice was answered, the prediction of log(seconds / rule)
};

/// Geometric mean and largest of a ratio of times.
struct RatioFigures {
  double mean = 1, worst = 1;
  std::string worst_problem;
};

/// The answers of a tree to problems that it was not trained on, compared with the rule and with
/// the best choice.
struct TreeEvaluation {
  std::vector<EvaluatedProblem> problems;
  RatioFigures tree_over_best, rule_over_best, tree_over_rule;
  int chose = 0, kept_rule = 0;  ///< answers
  int unsure_leaf = 0, unsure_range = 0, unsure_category = 0;
  int faster = 0, slower = 0;  ///< than the rule, beyond the noise
  /// Geometric means of time over the rule's where a choice was answered: as predicted, and as
  /// measured. They are equal where predictions are calibrated.
  double chosen_predicted = 1, chosen_measured = 1;

  int unsure() const { return unsure_leaf + unsure_range + unsure_category; }
  double unsure_share() const;
  /// All figures, and the problems if `with_problems`.
  Json to_json(bool with_problems = false) const;
  /// A table as text.
  std::string to_text() const;
};

/// Answers each problem of `data`, which must not be those of the training. Where the problem does
/// not have the choice that is answered, the fallback counts. Throws a User error for another
/// heuristic or other features.
TreeEvaluation evaluate_tree(const TreeHolder& tree, const HeuristicData& data);

/// Trains on all folds except one and answers the problems of that one, for each fold in turn. This
/// judges the whole procedure: the selection of the number of trees and of the safe regions does not
/// see the answers.
TreeEvaluation cross_evaluate(const HeuristicData& data, const TrainOptions& options = {},
                              int folds = 5);

/// What trees of the other machines do on the problems of a machine.
struct MachineLeftOut {
  std::string machine;
  TreeEvaluation worth;
};
/// For each machine in the logs, where there are several: trains on the logs of the others, and answers its problems.
/// Machines whose others have too few problems are left out.
std::vector<MachineLeftOut> leave_machines_out(const std::vector<HeuristicData>& logs,
                                               const TrainOptions& options = {});
/// The ratios of times, for TrainedTree::training.
Json to_json(const std::vector<MachineLeftOut>& machines);

}  // namespace heddle::learning
