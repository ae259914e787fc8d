#include "heddle/support/decision_tree.h"

#include <algorithm>
#include <array>
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

void predict(const TreeTable& tree, std::span<const double> features, std::span<float> out) {
  // Whole blocks of choices are summed in registers.
  constexpr std::size_t kBlock = 8;
  std::array<const float*, kMostTerms> rows;
  const std::size_t terms = tree.roots.size(), width = out.size();
  for (std::size_t t = 0; t < terms; ++t)
    rows[t] = tree.values.data() +
              static_cast<std::size_t>(walk(tree.terms, features, tree.roots[t])) * width;
  std::size_t c = 0;
  for (; c + kBlock <= width; c += kBlock) {
    float sums[kBlock] = {};
    for (std::size_t t = 0; t < terms; ++t) {
      for (std::size_t j = 0; j < kBlock; ++j) sums[j] += rows[t][c + j];
    }
    std::copy(sums, sums + kBlock, out.begin() + static_cast<std::ptrdiff_t>(c));
  }
  for (; c < width; ++c) {
    out[c] = 0;
    for (std::size_t t = 0; t < terms; ++t) out[c] += rows[t][c];
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
  if (leaf.verdict != LeafVerdict::Choice) return answer;
  std::array<float, kMostChoices> buffer;
  const std::span<float> predicted = std::span(buffer).first(tree.choices.size());
  predict(tree, features, predicted);
  const auto best = std::min_element(predicted.begin(), predicted.end());
  if (best == predicted.end() || *best >= -std::log1p(tree.limits.least_gain)) {
    answer.verdict = LeafVerdict::Rule;
  } else {
    answer.choice = static_cast<std::int32_t>(best - predicted.begin());
    answer.expected = *best;
  }
  return answer;
}

}  // namespace heddle
