#include "heddle/support/decision_tree.h"

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "heddle/support/error.h"

namespace heddle {
namespace {

constexpr int kDeepest = 64;

}  // namespace

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

void check_tree(std::span<const TreeNode> nodes, std::size_t features, std::size_t answers) {
  if (nodes.empty()) throw_user_error("there are no nodes");
  std::vector<int> depth(nodes.size(), -1);
  depth[0] = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto refuse = [i](const std::string& why) {
      throw_user_error("nodes[" + std::to_string(i) + "]: " + why);
    };
    const TreeNode& node = nodes[i];
    if (depth[i] < 0) refuse("no earlier node leads to it");
    if (depth[i] > kDeepest) refuse("it is deeper than " + std::to_string(kDeepest));
    if (node.feature >= static_cast<std::int64_t>(features))
      refuse("there is no feature " + std::to_string(node.feature));
    if (node.feature < 0) {
      if (node.yes < 0 || static_cast<std::size_t>(node.yes) >= answers)
        refuse("there is no leaf " + std::to_string(node.yes));
      continue;
    }
    for (const bool yes : {true, false}) {
      const std::int32_t child = yes ? node.yes : node.no;
      if (child <= static_cast<std::int64_t>(i) || child >= std::ssize(nodes))
        refuse((yes ? "'yes' is " : "'no' is ") + std::to_string(child) +
               ", which is no later node");
      int& below = depth[static_cast<std::size_t>(child)];
      if (below >= 0) refuse("node " + std::to_string(child) + " has two parents");
      below = depth[i] + 1;
    }
  }
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
  answer.leaf = walk(tree.nodes, features);
  const TreeLeaf& leaf = tree.leaves[static_cast<std::size_t>(answer.leaf)];
  answer.verdict = leaf.verdict;
  if (leaf.verdict == LeafVerdict::Unsure) answer.doubt = Doubt::Leaf;
  if (leaf.verdict == LeafVerdict::Choice) {
    answer.choice = tree.ranking[static_cast<std::size_t>(leaf.first)].choice;
  }
  return answer;
}

}  // namespace heddle
