#include "heddle/heuristics/train_tree.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "heddle/support/error.h"
#include "heuristics/train/grow_tree.h"
#include "heuristics/train/judge_leaves.h"
#include "heuristics/train/regret_table.h"
#include "heuristics/train/select_size.h"
#include "heuristics/train/usable_problems.h"

namespace heddle {

using namespace learning;
namespace {

void check_range(const char* name, double value, double least, double most) {
  if (value >= least && value <= most) return;
  throw_user_error(std::string("TrainOptions::") + name + " is " + Json(value).dump(), {},
                   "give a value from " + Json(least).dump() + " to " + Json(most).dump());
}

void check_options(const TrainOptions& o) {
  check_range("folds", o.folds, 2, 1000);
  check_range("deepest", o.deepest, 0, 20);
  check_range("ranked", o.ranked, 1, 64);
  check_range("most_slowdown", o.most_slowdown, 1.01, 1e6);
  check_range("most_noise", o.most_noise, 0, 1e6);
  check_range("least_noise", o.least_noise, 0, 1);
  check_range("confidence", o.confidence, 0.51, 0.999);
  check_range("allowed_loss", o.allowed_loss, 0, 10);
  check_range("allowed_worst_loss", o.allowed_worst_loss, 0, 100);
  check_range("allowed_rule_regret", o.allowed_rule_regret, 0, 10);
  check_range("margin", o.margin, 0, 10);
  if (o.leaf_sizes.empty()) throw_user_error("TrainOptions::leaf_sizes is empty");
  for (const int size : o.leaf_sizes) check_range("leaf_sizes", size, 1, 1e6);
}

TrainedFeature trained_feature(const HeuristicData& data, std::span<const std::int32_t> known,
                               std::size_t index) {
  const HeuristicFeature& declared = data.features[index];
  TrainedFeature feature{declared.name, declared.kind, 0, 0, declared.values, 0};
  bool first = true;
  for (const std::int32_t p : known) {
    const double value = data.problems[static_cast<std::size_t>(p)].features[index];
    if (declared.kind == FeatureKind::Categorical) {
      feature.seen |= std::uint64_t{1} << static_cast<unsigned>(value);
      continue;
    }
    feature.least = first ? value : std::min(feature.least, value);
    feature.most = first ? value : std::max(feature.most, value);
    first = false;
  }
  return feature;
}

/// Fills in the nodes, the leaves, their rankings, and the choices that these name.
void take_tree(const std::vector<RankedNode>& grown, const std::vector<TreeLeaf>& leaves,
               const HeuristicData& data, const RegretTable& regrets, TrainedTree& out) {
  std::map<std::int32_t, std::int32_t>
      place;  // the position in the tree's list of a choice of the data
  for (const RankedNode& node : grown) {
    if (!node.is_leaf()) {
      out.nodes.push_back(node.question);
      continue;
    }
    TreeLeaf leaf = leaves[out.leaves.size()];
    leaf.first = static_cast<std::int32_t>(out.ranking.size());
    leaf.count = static_cast<std::int32_t>(node.ranking.size());
    for (const int column : node.ranking) {
      const std::int32_t choice = regrets.choice(column);
      if (choice != kRuleChoice) place.emplace(choice, 0);
      out.ranking.push_back(
          {choice, rounded(std::exp(regrets.mean_regret(node.examples, column)))});
    }
    TreeNode end;
    end.yes = static_cast<std::int32_t>(out.leaves.size());
    out.nodes.push_back(end);
    out.leaves.push_back(leaf);
  }
  for (auto& [choice, index] : place) {
    index = static_cast<std::int32_t>(out.choices.size());
    out.choices.push_back(data.choices[static_cast<std::size_t>(choice)]);
  }
  for (RankedChoice& ranked : out.ranking) {
    if (ranked.choice != kRuleChoice) ranked.choice = place.at(ranked.choice);
  }
}

Json training_figures(const TrainOptions& options, const TreeSize& size, const RegretTable& regrets,
                      std::span<const std::int32_t> known, std::size_t all_problems) {
  double tree = 0, rule = 0;
  for (const std::int32_t p : known) {
    const int column = size.held_out[static_cast<std::size_t>(p)];
    tree += regrets.regrets(p)[static_cast<std::size_t>(column)];
    rule += regrets.regrets(p)[0];
  }
  const auto n = static_cast<double>(known.size());
  return Json::object({{"depth", size.depth},
                       {"leaf_size", size.leaf_size},
                       {"folds", options.folds},
                       {"problems_left_out", all_problems - known.size()},
                       {"held_out_over_best", rounded(std::exp(tree / n))},
                       {"rule_over_best", rounded(std::exp(rule / n))}});
}

}  // namespace

std::vector<std::int32_t> learning::usable_problems(const HeuristicData& data,
                                                    const TrainOptions& options) {
  std::vector<std::int32_t> known;
  for (std::size_t p = 0; p < data.problems.size(); ++p) {
    const std::vector<double>& features = data.problems[p].features;
    if (data.problems[p].noise > options.most_noise) continue;
    if (std::none_of(features.begin(), features.end(), [](double x) { return std::isnan(x); })) {
      known.push_back(static_cast<std::int32_t>(p));
    }
  }
  return known;
}

TrainedTree train_tree(const HeuristicData& data, const TrainOptions& options) {
  check_options(options);
  const std::vector<std::int32_t> known = usable_problems(data, options);
  if (std::ssize(known) < std::ptrdiff_t{2} * options.folds) {
    throw_user_error("'" + data.heuristic + "' has " + std::to_string(known.size()) +
                         " usable problems to train on, and " + std::to_string(options.folds) +
                         " folds need " + std::to_string(2 * options.folds),
                     {},
                     "collect for longer, on a machine that does nothing else, or train with fewer "
                     "folds");
  }
  const RegretTable regrets(data, options);
  const TreeSize size = select_size(data, regrets, known, options);
  const std::vector<RankedNode> grown =
      pruned(grow_ranked_tree(data, regrets, known, {size.depth, size.leaf_size, options.ranked}),
             size.depth);

  TrainedTree tree;
  tree.heuristic = data.heuristic;
  tree.version = data.version;
  tree.machine = data.machine;
  tree.target = data.target;
  tree.date = options.date;
  tree.problems = std::ssize(known);
  tree.measurements = data.measurements();
  tree.seed = options.seed;
  tree.margin = options.margin;
  tree.limits = {options.confidence, options.allowed_loss, options.allowed_worst_loss};
  tree.training = training_figures(options, size, regrets, known, data.problems.size());
  for (std::size_t f = 0; f < data.features.size(); ++f) {
    tree.features.push_back(trained_feature(data, known, f));
  }
  take_tree(grown, judge_leaves(grown, regrets, size, options), data, regrets, tree);
  return tree;
}

}  // namespace heddle
