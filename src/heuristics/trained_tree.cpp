#include "heddle/heuristics/trained_tree.h"

#include <utility>

namespace heddle {

double lowest_accepted(double least, double most, double margin) {
  if (least == most) return least;
  return least > 0 ? least / (1 + margin) : least * (1 + margin);
}

double highest_accepted(double least, double most, double margin) {
  if (least == most) return most;
  return most > 0 ? most * (1 + margin) : most / (1 + margin);
}

TreeHolder::TreeHolder(TrainedTree tree) : tree_(std::move(tree)) {
  values_.reserve(tree_.features.size());
  for (const TrainedFeature& f : tree_.features) {
    const auto& values = values_.emplace_back(f.values.begin(), f.values.end());
    features_.push_back({f.name, f.kind, f.least, f.most, f.seen, values});
    if (f.kind == FeatureKind::Numeric) {
      features_.back().lowest = lowest_accepted(f.least, f.most, tree_.margin);
      features_.back().highest = highest_accepted(f.least, f.most, tree_.margin);
    }
  }
  choices_.assign(tree_.choices.begin(), tree_.choices.end());
  table_.origin = {tree_.heuristic, tree_.version,  tree_.machine,      tree_.target,
                   tree_.date,      tree_.problems, tree_.measurements, tree_.seed};
  table_.limits = tree_.limits;
  table_.features = features_;
  table_.nodes = tree_.nodes;
  table_.leaves = tree_.leaves;
  table_.ranking = tree_.ranking;
  table_.choices = choices_;
}

}  // namespace heddle
