#include "heddle/support/decision_tree.h"

#include <cmath>
#include <cstddef>

namespace heddle {

Doubt doubt_about(const TreeFeature& feature, double value) {
  if (std::isnan(value)) return Doubt::NotKnown;
  if (feature.kind != FeatureKind::Categorical) {
    return value >= feature.lowest && value <= feature.highest ? Doubt::None : Doubt::Range;
  }
  // The comparison is in double, because converting a value that does not fit is undefined.
  if (!(value >= 0 && value < kMostCategories)) return Doubt::Category;
  const auto index = static_cast<unsigned>(value);
  const bool seen = index == value && ((feature.seen >> index) & 1U) != 0;
  return seen ? Doubt::None : Doubt::Category;
}

std::int32_t leaf_of(const TreeTable& tree, std::span<const double> features) {
  const TreeNode* node = &tree.nodes[0];
  while (node->feature >= 0) {
    const auto f = static_cast<std::size_t>(node->feature);
    const bool yes = says_yes(tree.features[f], *node, features[f]);
    node = &tree.nodes[static_cast<std::size_t>(yes ? node->yes : node->no)];
  }
  return node->yes;
}

TreeAnswer answer_of(const TreeTable& tree, std::span<const double> features) {
  TreeAnswer answer;
  if (features.size() != tree.features.size()) {
    answer.doubt = Doubt::WrongNumber;
    return answer;
  }
  for (std::size_t f = 0; f < features.size(); ++f) {
    answer.doubt = doubt_about(tree.features[f], features[f]);
    if (answer.doubt == Doubt::None) continue;
    answer.feature = static_cast<std::int32_t>(f);
    return answer;
  }
  answer.leaf = leaf_of(tree, features);
  const TreeLeaf& leaf = tree.leaves[static_cast<std::size_t>(answer.leaf)];
  answer.verdict = leaf.verdict;
  if (leaf.verdict == LeafVerdict::Unsure) answer.doubt = Doubt::Leaf;
  if (leaf.verdict == LeafVerdict::Choice) {
    answer.choice = tree.ranking[static_cast<std::size_t>(leaf.first)].choice;
  }
  return answer;
}

}  // namespace heddle
