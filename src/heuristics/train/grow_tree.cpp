#include "heuristics/train/grow_tree.h"

#include <utility>

namespace heddle::learning {
namespace {

/// Appends the part of `tree` below `index`. Returns the index of its root in `out`.
std::int32_t copy_pruned(const std::vector<RankedNode>& tree, std::int32_t index, int depth,
                         std::vector<RankedNode>& out) {
  const auto place = out.size();
  out.push_back(tree[static_cast<std::size_t>(index)]);
  TreeNode asked = std::exchange(out[place].question, {});
  if (asked.feature >= 0 && depth > 0) {
    asked.yes = copy_pruned(tree, asked.yes, depth - 1, out);
    asked.no = copy_pruned(tree, asked.no, depth - 1, out);
    const RankedNode& a = out[static_cast<std::size_t>(asked.yes)];
    const RankedNode& b = out[static_cast<std::size_t>(asked.no)];
    const int first = out[place].ranking[0];
    if (a.is_leaf() && b.is_leaf() && a.ranking[0] == first && b.ranking[0] == first) {
      out.resize(place + 1);
    } else {
      out[place].question = asked;
    }
  }
  return static_cast<std::int32_t>(place);
}

}  // namespace

std::vector<RankedNode> grow_ranked_tree(const HeuristicData& data, const RegretTable& regrets,
                                         std::vector<std::int32_t> problems,
                                         const TrainRules& rules) {
  TreeExamples examples{.all = {}, .categories = {}, .answers = regrets.columns()};
  for (std::size_t p = 0; p < data.problems.size(); ++p) {
    examples.all.push_back(
        {data.problems[p].features, regrets.costs(static_cast<std::int32_t>(p))});
  }
  for (const HeuristicFeature& f : data.features)
    examples.categories.push_back(static_cast<int>(f.values.size()));
  std::vector<RankedNode> tree;
  for (GrownNode& node : grow_tree(examples, std::move(problems),
                                   {.depth = rules.depth, .leaf_size = rules.leaf_size})) {
    std::vector<int> ranking = regrets.ranking(node.examples, rules.ranked);
    tree.push_back({std::move(node), std::move(ranking)});
  }
  return tree;
}

const RankedNode& node_of(const std::vector<RankedNode>& tree, const HeuristicProblem& problem,
                          int depth) {
  const RankedNode* node = tree.data();
  for (; !node->is_leaf() && depth > 0; --depth) {
    const TreeNode& asked = node->question;
    const bool yes = says_yes(asked, problem.features[static_cast<std::size_t>(asked.feature)]);
    node = &tree[static_cast<std::size_t>(yes ? asked.yes : asked.no)];
  }
  return *node;
}

std::vector<RankedNode> pruned(const std::vector<RankedNode>& tree, int depth) {
  std::vector<RankedNode> out;
  copy_pruned(tree, 0, depth, out);
  return out;
}

}  // namespace heddle::learning
