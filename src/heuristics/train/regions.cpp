#include "heuristics/train/regions.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "heuristics/train/boost.h"
#include "heuristics/train/confidence.h"

namespace heddle::learning {
namespace {

/// A question of the tree of regions lowers the mean cost by this at least.
constexpr double kLeastGainOfQuestion = 1e-3;

/// What held-out problems say for and against the answers of the sum in a region.
struct Evidence {
  const Region* region = nullptr;
  std::vector<double> regret, loss, rule_regret;
};

Evidence evidence_of(const Region& region, const RegretTable& regrets, const SumSize& size) {
  Evidence evidence{&region, {}, {}, {}};
  for (const std::int32_t p : region.node.examples) {
    const int column = size.held_out[static_cast<std::size_t>(p)];
    evidence.regret.push_back(regrets.regrets(p)[static_cast<std::size_t>(column)]);
    evidence.loss.push_back(regrets.loss(p, column));
    evidence.rule_regret.push_back(regrets.regrets(p)[0]);
  }
  return evidence;
}

/// The variance within regions, over all of them.
VariancePrior pooled_variance(const std::vector<Evidence>& regions,
                              std::vector<double> Evidence::* figure) {
  double squares = 0, freedom = 0;
  for (const Evidence& region : regions) {
    squares += squared_deviations(region.*figure);
    freedom += static_cast<double>((region.*figure).size()) - 1;
  }
  VariancePrior prior;
  prior.variance = freedom > 0 ? squares / freedom : 0;
  return prior;
}

LeafVerdict verdict_of(const Evidence& evidence, const TreeLeaf& leaf, double rule_regret_bound,
                       const SumSize& size, const TrainOptions& options) {
  const bool safe = size.answers && leaf.loss_bound <= std::log1p(options.allowed_loss) &&
                    leaf.worst_loss <= std::log1p(options.allowed_worst_loss);
  if (evidence.region->answers && safe) return LeafVerdict::Choice;
  const bool rule =
      !evidence.region->answers || rule_regret_bound <= std::log1p(options.allowed_rule_regret);
  return rule ? LeafVerdict::Rule : LeafVerdict::Unsure;
}

}  // namespace

double rounded(double figure) { return std::round(figure * 1e6) / 1e6; }

std::vector<Region> distil(const HeuristicData& data, const RegretTable& regrets,
                           std::span<const SumTerm> sum, std::span<const std::int32_t> known,
                           const TrainOptions& options) {
  const auto width = static_cast<std::size_t>(regrets.columns());
  std::vector<double> costs(data.problems.size() * width, 0);  // column 0, the rule, costs nothing
  std::vector<bool> answers(data.problems.size(), false);
  for (const std::int32_t p : known) {
    const auto i = static_cast<std::size_t>(p);
    RunningSum running(data.problems[i], width - 1);
    for (const SumTerm& term : sum) running.add(term);
    std::copy(running.predicted().begin(), running.predicted().end(),
              costs.begin() + static_cast<std::ptrdiff_t>(i * width + 1));
    answers[i] = running.answer(regrets, p, options.least_gain) != 0;
  }
  const GrowRules rules{.depth = options.region_depth,
                        .leaf_size = options.region_size,
                        .least_gain = kLeastGainOfQuestion * static_cast<double>(known.size())};
  const TreeExamples examples = examples_of(data, costs, width);
  std::vector<Region> regions;
  for (GrownNode& node : grow_tree(examples, {known.begin(), known.end()}, rules)) {
    const bool any = std::ranges::any_of(
        node.examples, [&](std::int32_t p) { return answers[static_cast<std::size_t>(p)]; });
    regions.push_back({std::move(node), any});
  }
  return regions;
}

std::vector<TreeLeaf> judge_regions(const std::vector<Region>& regions, const RegretTable& regrets,
                                    const SumSize& size, const TrainOptions& options) {
  std::vector<Evidence> all;
  for (const Region& region : regions) {
    if (region.node.is_leaf()) all.push_back(evidence_of(region, regrets, size));
  }
  const VariancePrior regret_prior = pooled_variance(all, &Evidence::regret);
  const VariancePrior loss_prior = pooled_variance(all, &Evidence::loss);
  const VariancePrior rule_prior = pooled_variance(all, &Evidence::rule_regret);
  std::vector<TreeLeaf> leaves;
  for (const Evidence& evidence : all) {
    TreeLeaf leaf;
    leaf.support = static_cast<std::int32_t>(evidence.regret.size());
    const double rule_bound = mean_bound(evidence.rule_regret, rule_prior, options.confidence);
    leaf.loss = rounded(mean_of(evidence.loss));
    leaf.loss_bound = rounded(mean_bound(evidence.loss, loss_prior, options.confidence));
    leaf.worst_loss = rounded(*std::max_element(evidence.loss.begin(), evidence.loss.end()));
    leaf.verdict = verdict_of(evidence, leaf, rule_bound, size, options);
    const bool rule = leaf.verdict != LeafVerdict::Choice;
    leaf.regret = rounded(mean_of(rule ? evidence.rule_regret : evidence.regret));
    leaf.regret_bound =
        rounded(rule ? rule_bound : mean_bound(evidence.regret, regret_prior, options.confidence));
    leaves.push_back(leaf);
  }
  return leaves;
}

}  // namespace heddle::learning
