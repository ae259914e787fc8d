#include "heuristics/train/judge_leaves.h"

#include <algorithm>
#include <cmath>

#include "heuristics/train/confidence.h"

namespace heddle::learning {
namespace {

/// The evidence for and against a leaf, for each problem.
struct Evidence {
  const RankedNode* node = nullptr;
  std::vector<double> regret, loss, rule_regret;
};

/// Collects the answers of the trees that were trained without the problem. Where such a tree kept
/// the rule, it says nothing about the leaf's own choice, so the measured time of that choice
/// counts.
Evidence evidence_of(const RankedNode& leaf, const RegretTable& regrets, const TreeSize& size) {
  Evidence evidence{&leaf, {}, {}, {}};
  for (const std::int32_t p : leaf.examples) {
    int column = size.held_out[static_cast<std::size_t>(p)];
    if (column == 0) column = regrets.first_available(p, leaf.ranking);
    evidence.regret.push_back(regrets.regrets(p)[static_cast<std::size_t>(column)]);
    evidence.loss.push_back(regrets.loss(p, column));
    evidence.rule_regret.push_back(regrets.regrets(p)[0]);
  }
  return evidence;
}

/// The variance within leaves, over all leaves.
VariancePrior pooled_variance(const std::vector<Evidence>& leaves,
                              std::vector<double> Evidence::* figure) {
  double squares = 0, freedom = 0;
  for (const Evidence& leaf : leaves) {
    squares += squared_deviations(leaf.*figure);
    freedom += static_cast<double>((leaf.*figure).size()) - 1;
  }
  VariancePrior prior;
  prior.variance = freedom > 0 ? squares / freedom : 0;
  return prior;
}

LeafVerdict verdict_of(const Evidence& evidence, const TreeLeaf& leaf, double rule_regret_bound,
                       const TrainOptions& options) {
  if (evidence.node->ranking[0] == 0) return LeafVerdict::Rule;
  if (leaf.loss_bound <= std::log1p(options.allowed_loss) &&
      leaf.worst_loss <= std::log1p(options.allowed_worst_loss)) {
    return LeafVerdict::Choice;
  }
  return rule_regret_bound <= std::log1p(options.allowed_rule_regret) ? LeafVerdict::Rule
                                                                      : LeafVerdict::Unsure;
}

}  // namespace

double rounded(double figure) { return std::round(figure * 1e6) / 1e6; }

std::vector<TreeLeaf> judge_leaves(const std::vector<RankedNode>& tree, const RegretTable& regrets,
                                   const TreeSize& size, const TrainOptions& options) {
  std::vector<Evidence> all;
  for (const RankedNode& node : tree) {
    if (node.is_leaf()) all.push_back(evidence_of(node, regrets, size));
  }
  const VariancePrior regret_prior = pooled_variance(all, &Evidence::regret);
  const VariancePrior loss_prior = pooled_variance(all, &Evidence::loss);
  const VariancePrior rule_prior = pooled_variance(all, &Evidence::rule_regret);
  std::vector<TreeLeaf> leaves;
  for (const Evidence& evidence : all) {
    TreeLeaf leaf;
    leaf.support = static_cast<std::int32_t>(evidence.node->examples.size());
    const double rule_bound = mean_bound(evidence.rule_regret, rule_prior, options.confidence);
    leaf.loss = rounded(mean_of(evidence.loss));
    leaf.loss_bound = rounded(mean_bound(evidence.loss, loss_prior, options.confidence));
    leaf.worst_loss = rounded(*std::max_element(evidence.loss.begin(), evidence.loss.end()));
    leaf.verdict = verdict_of(evidence, leaf, rule_bound, options);
    const bool rule = leaf.verdict != LeafVerdict::Choice;
    leaf.regret = rounded(mean_of(rule ? evidence.rule_regret : evidence.regret));
    leaf.regret_bound =
        rounded(rule ? rule_bound : mean_bound(evidence.regret, regret_prior, options.confidence));
    leaves.push_back(leaf);
  }
  return leaves;
}

}  // namespace heddle::learning
