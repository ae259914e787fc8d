#include "heuristics/certify/share_tree.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "heuristics/names.h"
#include "heuristics/train/boost.h"
#include "heuristics/train/regions.h"
#include "heuristics/trained_features.h"
#include "support/tree/grow.h"

namespace heddle::learning {
namespace {

/// A question must make the problems this much more likely, as a difference of logarithms.
constexpr double kLeastGain = 2;
constexpr int kThresholds = 24;

/// -log of the likelihood of so many of `all` at their own share.
double surprise(double within, double all) {
  const auto part = [&](double k) { return k > 0 ? -k * std::log(k / all) : 0.0; };
  return part(within) + part(all - within);
}

/// The trees of one set of problems.
class Grower {
 public:
  Grower(const HeuristicData& data, const std::vector<Outcome>& outcomes, const ShareOptions& o)
      : data_(data), outcomes_(outcomes), o_(o) {
    for (const Outcome& outcome : outcomes) costs_.push_back(outcome.within ? 1 : 0);
    examples_ = examples_of(data, costs_, 1);
  }

  ShareTree grow(const std::vector<std::int32_t>& which, int depth) const {
    const GrowRules rules{
        .depth = depth,
        .leaf_size = o_.leaf_size,
        .least_gain = kLeastGain,
        .thresholds = kThresholds,
        .cost = [](std::span<const double> sums, int n) { return surprise(sums[0], n); }};
    ShareTree tree{.heuristic = data_.heuristic, .version = data_.version};
    for (std::size_t f = 0; f < data_.features.size(); ++f)
      tree.features.push_back(trained_feature(data_, which, f));
    tree.kinds = seen_kinds(data_, which);
    const double of_all = share_of(which);
    for (const GrownNode& node : grow_tree(examples_, which, rules)) {
      TreeNode question = node.question;
      if (node.is_leaf()) {
        question = {.yes = static_cast<std::int32_t>(tree.leaves.size())};
        tree.leaves.push_back(leaf(node.examples, of_all));
      }
      tree.nodes.push_back(question);
    }
    return tree;
  }

  /// What a tree that had not seen them says about the problems; NaN where it says nothing.
  std::vector<double> said(const std::vector<std::int32_t>& folds, int depth) const {
    std::vector<double> all(outcomes_.size(), kNotMeasured);
    for (int fold = 0; fold < o_.folds; ++fold) {
      std::vector<std::int32_t> seen;
      for (std::size_t i = 0; i < folds.size(); ++i) {
        if (folds[i] != fold) seen.push_back(static_cast<std::int32_t>(i));
      }
      const ShareTree tree = grow(seen, depth);
      for (std::size_t i = 0; i < folds.size(); ++i) {
        if (folds[i] != fold) continue;
        std::string why;
        const int at = leaf_of(tree, data_.problems[i].features, &why);
        if (at >= 0) all[i] = tree.leaves[static_cast<std::size_t>(at)].share;
      }
    }
    return all;
  }

 private:
  double share_of(const std::vector<std::int32_t>& which) const {
    double within = 0;
    for (const std::int32_t i : which) within += costs_[static_cast<std::size_t>(i)];
    return which.empty() ? 0 : within / static_cast<double>(which.size());
  }

  ShareLeaf leaf(const std::vector<std::int32_t>& which, double of_all) const {
    ShareLeaf l{.problems = static_cast<int>(which.size())};
    double slower = 0;
    int known = 0;
    for (const std::int32_t i : which) {
      const Outcome& o = outcomes_[static_cast<std::size_t>(i)];
      l.within += o.within ? 1 : 0;
      if (std::isnan(o.slower)) continue;
      slower += o.slower;
      ++known;
    }
    l.share = rounded((l.within + o_.shrinkage * of_all) / (l.problems + o_.shrinkage));
    if (known > 0) l.slower = rounded(slower / known);
    return l;
  }

  const HeuristicData& data_;
  const std::vector<Outcome>& outcomes_;
  const ShareOptions& o_;
  std::vector<double> costs_;
  TreeExamples examples_;
};

double likelihood(const std::vector<double>& said, const std::vector<Outcome>& outcomes) {
  double sum = 0;
  for (std::size_t i = 0; i < said.size(); ++i) {
    if (!std::isnan(said[i]))
      sum += std::log(std::clamp(outcomes[i].within ? said[i] : 1 - said[i], 1e-3, 1.0));
  }
  return sum;
}

/// A bin of each tenth of what was said that has problems.
std::vector<CertificateBin> bins_of(const std::vector<double>& said,
                                    const std::vector<Outcome>& outcomes) {
  std::vector<CertificateBin> all;
  for (std::size_t i = 0; i < said.size(); ++i) {
    if (!std::isnan(said[i])) add_bins(all, {{said[i], 1, outcomes[i].within ? 1 : 0}});
  }
  for (CertificateBin& b : all) b.said = rounded(b.said);
  return all;
}

/// Folds with nearly the same share within. Without that, what is left of a fold with few says more than that it is.
std::vector<std::int32_t> balanced_folds(const HeuristicData& data,
                                         const std::vector<Outcome>& outcomes,
                                         const ShareOptions& options) {
  std::vector<std::int32_t> folds(outcomes.size());
  for (const bool within : {false, true}) {
    std::vector<std::int32_t> which;
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      if (outcomes[i].within == within) which.push_back(static_cast<std::int32_t>(i));
    }
    const std::vector<std::int32_t> of = folds_of(subset(data, which), options.folds, options.seed);
    for (std::size_t i = 0; i < which.size(); ++i)
      folds[static_cast<std::size_t>(which[i])] = of[i];
  }
  return folds;
}

int tenth_of(const CertificateBin& bin) { return std::min(9, static_cast<int>(10 * bin.said)); }

}  // namespace

int ShareTree::problems() const {
  return std::accumulate(leaves.begin(), leaves.end(), 0,
                         [](int sum, const ShareLeaf& l) { return sum + l.problems; });
}

int ShareTree::within() const {
  return std::accumulate(leaves.begin(), leaves.end(), 0,
                         [](int sum, const ShareLeaf& l) { return sum + l.within; });
}

std::vector<ShareTree> grow_shares(const HeuristicData& data, const std::vector<Outcome>& outcomes,
                                   const ShareOptions& options) {
  if (std::ssize(data.problems) < options.fewest) return {};
  const Grower grower(data, outcomes, options);
  const std::vector<std::int32_t> folds = balanced_folds(data, outcomes, options);
  int best = 0;
  std::vector<double> said = grower.said(folds, 0);
  for (int depth = 1; depth <= options.depth; ++depth) {
    std::vector<double> deeper = grower.said(folds, depth);
    if (likelihood(deeper, outcomes) <= likelihood(said, outcomes)) continue;
    said = std::move(deeper);
    best = depth;
  }
  std::vector<std::int32_t> all(data.problems.size());
  std::iota(all.begin(), all.end(), 0);
  ShareTree tree = grower.grow(all, best);
  tree.held_out = bins_of(said, outcomes);
  return {std::move(tree)};
}

int leaf_of(const ShareTree& tree, const std::vector<double>& values, std::string* why_not) {
  std::vector<TreeFeature> features;
  for (std::size_t f = 0; f < tree.features.size(); ++f) {
    const TrainedFeature& of = tree.features[f];
    TreeFeature accepted{of.name, of.kind, of.least, of.most, of.seen};
    if (of.kind == FeatureKind::Numeric) {
      accepted.lowest = lowest_accepted(of.least, of.most, tree.margin);
      accepted.highest = highest_accepted(of.least, of.most, tree.margin);
    }
    features.push_back(accepted);
    const Doubt doubt = doubt_about(accepted, values[f]);
    if (doubt == Doubt::None) continue;
    *why_not = "no measured problem is like it: " + of.name + " is ";
    *why_not += doubt == Doubt::NotKnown ? "not known"
                : doubt == Doubt::Category
                    ? "a value that none had"
                    : Json(values[f]).dump() + ", not in " + Json(of.least).dump() + ".." +
                          Json(of.most).dump();
    return -1;
  }
  const std::vector<double> ranges = ranges_of(tree.kinds, features, tree.margin);
  if (const std::int32_t unlike = unlike_kinds(features, ranges, values); unlike >= 0) {
    const auto f = static_cast<std::size_t>(unlike);
    *why_not = "no measured problem of its kind is like it: " + tree.features[f].name + " is " +
               Json(values[f]).dump();
    return -1;
  }
  return walk<std::vector<double>>(tree.nodes, values);
}

void add_bins(std::vector<CertificateBin>& sum, const std::vector<CertificateBin>& more) {
  for (const CertificateBin& b : more) {
    auto at = std::ranges::lower_bound(sum, tenth_of(b), {}, tenth_of);
    if (at == sum.end() || tenth_of(*at) != tenth_of(b)) at = sum.insert(at, {b.said, 0, 0});
    const int problems = at->problems + b.problems;
    at->said = (at->said * at->problems + b.said * b.problems) / problems;
    at->problems = problems;
    at->within += b.within;
  }
}

}  // namespace heddle::learning
