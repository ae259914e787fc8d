#include "heddle/heuristics/trained_tree.h"

#include <utility>

#include "heddle/support/error.h"

namespace heddle {

std::vector<double> ranges_of(const std::optional<std::vector<SeenKind>>& kinds,
                              std::span<const TreeFeature> features, double margin) {
  std::vector<double> ranges;
  if (!kinds) return ranges;
  // No number is from 1 to 0.
  for (std::size_t f = 0; kinds->empty() && f < features.size(); ++f)
    ranges.insert(ranges.end(), {1, 0});
  for (const SeenKind& kind : *kinds) {
    for (std::size_t f = 0; f < features.size(); ++f) {
      const double more = features[f].kind == FeatureKind::Numeric ? margin : 0;
      ranges.push_back(lowest_accepted(kind.least[f], kind.most[f], more));
      ranges.push_back(highest_accepted(kind.least[f], kind.most[f], more));
    }
  }
  return ranges;
}

std::int32_t unlike_kinds(std::span<const TreeFeature> features, std::span<const double> kinds,
                          std::span<const double> values) {
  std::int32_t unlike = -1;
  std::size_t least = 0;  // of what differs: a flag weighs more than all numbers
  for (std::size_t kind = 0; kind < kinds.size(); kind += 2 * features.size()) {
    std::size_t differ = 0;
    std::int32_t number = -1, flag = -1;
    for (std::size_t f = 0; f < features.size(); ++f) {
      const double* range = &kinds[kind + 2 * f];
      if (values[f] >= range[0] && values[f] <= range[1]) continue;
      const bool numeric = features[f].kind == FeatureKind::Numeric;
      differ += numeric ? 1 : features.size();
      (numeric ? number : flag) = static_cast<std::int32_t>(f);
    }
    if (differ == 0) return -1;
    if (unlike >= 0 && differ >= least) continue;
    unlike = flag >= 0 ? flag : number;
    least = differ;
  }
  return unlike;
}

double lowest_accepted(double least, double most, double margin) {
  if (least == most) return least;
  return least > 0 ? least / (1 + margin) : least * (1 + margin);
}

double highest_accepted(double least, double most, double margin) {
  if (least == most) return most;
  return most > 0 ? most * (1 + margin) : most / (1 + margin);
}

TreeHolder::TreeHolder(TrainedTree tree) : tree_(std::move(tree)) {
  if (tree_.choices.size() > kMostChoices || tree_.sum.size() > kMostTerms)
    throw_user_error("a sum of " + std::to_string(tree_.sum.size()) + " trees for " +
                         std::to_string(tree_.choices.size()) + " choices is too large",
                     {},
                     "give the heuristic at most " + std::to_string(kMostChoices) +
                         " choices, and its sum at most " + std::to_string(kMostTerms) + " trees");
  values_.reserve(tree_.features.size());
  for (const TrainedFeature& f : tree_.features) {
    const auto& values = values_.emplace_back(f.values.begin(), f.values.end());
    features_.push_back({f.name, f.kind, f.least, f.most, f.seen, values});
    if (f.kind == FeatureKind::Numeric) {
      features_.back().lowest = lowest_accepted(f.least, f.most, tree_.margin);
      features_.back().highest = highest_accepted(f.least, f.most, tree_.margin);
    }
  }
  kinds_ = ranges_of(tree_.kinds, features_, tree_.margin);
  choices_.assign(tree_.choices.begin(), tree_.choices.end());
  for (const SumTerm& term : tree_.sum) add_term(term);
  table_.origin = {tree_.heuristic, tree_.version,  tree_.machine,      tree_.target,
                   tree_.date,      tree_.problems, tree_.measurements, tree_.seed};
  table_.limits = tree_.limits;
  table_.features = features_;
  table_.nodes = tree_.nodes;
  table_.leaves = tree_.leaves;
  table_.ranking = tree_.ranking;
  table_.choices = choices_;
  table_.terms = terms_;
  table_.roots = roots_;
  table_.values = values_of_terms_;
}

void TreeHolder::add_term(const SumTerm& term) {
  const auto first = static_cast<std::int32_t>(terms_.size());
  const std::size_t width = choices_.size();
  const auto row = static_cast<std::int32_t>(width > 0 ? values_of_terms_.size() / width : 0);
  roots_.push_back(first);
  for (TreeNode node : term.nodes) {
    const bool leaf = node.feature < 0;
    node.yes += leaf ? row : first;
    node.no += leaf ? 0 : first;
    terms_.push_back(node);
  }
  values_of_terms_.insert(values_of_terms_.end(), term.values.begin(), term.values.end());
}

}  // namespace heddle
