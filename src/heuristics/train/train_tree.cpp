#include "heddle/heuristics/train_tree.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "heddle/support/error.h"
#include "heuristics/train/boost.h"
#include "heuristics/train/regions.h"
#include "heuristics/train/regret_table.h"
#include "heuristics/train/select_terms.h"
#include "heuristics/train/usable_problems.h"
#include "heuristics/trained_features.h"

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
  check_range("terms", o.terms, 1, kMostTerms);
  check_range("depth", o.depth, 0, 20);
  check_range("leaf_size", o.leaf_size, 1, 1e6);
  check_range("rate", o.rate, 0.001, 1);
  check_range("shrinkage", o.shrinkage, 0, 1e6);
  check_range("least_gain", o.least_gain, 0, 1);
  check_range("region_depth", o.region_depth, 0, 20);
  check_range("region_size", o.region_size, 1, 1e6);
  check_range("ranked", o.ranked, 1, 64);
  check_range("most_slowdown", o.most_slowdown, 1.01, 1e6);
  check_range("most_noise", o.most_noise, 0, 1e6);
  check_range("least_noise", o.least_noise, 0, 1);
  check_range("confidence", o.confidence, 0.51, 0.999);
  check_range("allowed_loss", o.allowed_loss, 0, 10);
  check_range("allowed_worst_loss", o.allowed_worst_loss, 0, 100);
  check_range("allowed_rule_regret", o.allowed_rule_regret, 0, 10);
  check_range("margin", o.margin, 0, 10);
}

/// The best columns on average, of those that half of the problems have at least: a rare choice counts
/// as the rule nearly everywhere.
std::vector<int> ranking_of_region(const RegretTable& regrets,
                                   std::span<const std::int32_t> problems, int count) {
  std::vector<int> ranking = regrets.ranking(problems, regrets.columns());
  std::erase_if(ranking, [&](int column) {
    return 2 * std::ranges::count_if(problems,
                                     [&](std::int32_t p) { return regrets.available(p, column); }) <
           std::ssize(problems);
  });
  ranking.resize(std::min(ranking.size(), static_cast<std::size_t>(count)));
  return ranking;
}

/// Fills in the choices, and the nodes, leaves and rankings of the regions.
void take_regions(const std::vector<Region>& regions, std::vector<TreeLeaf> leaves,
                  const HeuristicData& data, const RegretTable& regrets, int ranked,
                  TrainedTree& out) {
  for (int column = 1; column < regrets.columns(); ++column)
    out.choices.push_back(data.choices[static_cast<std::size_t>(regrets.choice(column))]);
  out.leaves = std::move(leaves);
  std::size_t next = 0;
  for (const Region& region : regions) {
    TreeNode node = region.node.question;
    if (region.node.is_leaf()) {
      node = {.yes = static_cast<std::int32_t>(next)};
      TreeLeaf& leaf = out.leaves[next++];
      const std::vector<int> ranking = ranking_of_region(regrets, region.node.examples, ranked);
      leaf.first = static_cast<std::int32_t>(out.ranking.size());
      leaf.count = static_cast<std::int32_t>(ranking.size());
      for (const int column : ranking)
        out.ranking.push_back(
            {column == 0 ? kRuleChoice : column - 1,
             rounded(std::exp(regrets.mean_regret(region.node.examples, column)))});
    }
    out.nodes.push_back(node);
  }
}

Json training_figures(const TrainOptions& options, const SumSize& size, const RegretTable& regrets,
                      std::span<const std::int32_t> known, std::size_t all_problems) {
  double tree = 0, rule = 0;
  for (const std::int32_t p : known) {
    const int column = size.held_out[static_cast<std::size_t>(p)];
    tree += regrets.regrets(p)[static_cast<std::size_t>(column)];
    rule += regrets.regrets(p)[0];
  }
  const auto n = static_cast<double>(known.size());
  return Json::object({{"terms", size.terms},
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
  const SumSize size = select_terms(data, regrets, known, options);
  TrainOptions chosen = options;
  chosen.terms = size.terms;

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
  tree.limits = {options.confidence, options.allowed_loss, options.allowed_worst_loss,
                 options.least_gain};
  tree.training = training_figures(options, size, regrets, known, data.problems.size());
  for (std::size_t f = 0; f < data.features.size(); ++f) {
    tree.features.push_back(trained_feature(data, known, f));
  }
  tree.kinds = seen_kinds(data, known);
  tree.sum = boost(data, regrets, known, chosen);
  const std::vector<Region> regions = distil(data, regrets, tree.sum, known, options);
  take_regions(regions, judge_regions(regions, regrets, size, options), data, regrets,
               options.ranked, tree);
  return tree;
}

}  // namespace heddle
