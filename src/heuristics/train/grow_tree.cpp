#include "heuristics/train/grow_tree.h"

#include <algorithm>
#include <utility>

namespace heddle {

bool Split::says_yes(const HeuristicData& data, const HeuristicProblem& problem) const {
  const auto f = static_cast<std::size_t>(feature);
  TreeFeature asked;
  asked.kind = data.features[f].kind;
  TreeNode node;
  node.at_most = at_most;
  node.one_of = one_of;
  return heddle::says_yes(asked, node, problem.features[f]);
}

namespace {

class Grower {
 public:
  Grower(const HeuristicData& data, const RegretTable& regrets, const GrowOptions& options)
      : data_(data), regrets_(regrets), options_(options) {}

  std::int32_t grow(std::vector<std::int32_t> problems, int depth) {
    const auto index = static_cast<std::int32_t>(nodes_.size());
    nodes_.emplace_back();
    GrownNode node;
    node.ranking = regrets_.ranking(problems, options_.ranked);
    const bool may_split =
        depth < options_.depth && std::ssize(problems) >= std::ptrdiff_t{2} * options_.leaf_size;
    if (may_split) node.split = best_split(data_, regrets_, problems, options_.leaf_size);
    if (node.split.feature >= 0) {
      std::vector<std::int32_t> yes, no;
      for (const std::int32_t p : problems) {
        const bool side = node.split.says_yes(data_, data_.problems[static_cast<std::size_t>(p)]);
        (side ? yes : no).push_back(p);
      }
      node.yes = grow(std::move(yes), depth + 1);
      node.no = grow(std::move(no), depth + 1);
    }
    node.problems = std::move(problems);
    nodes_[static_cast<std::size_t>(index)] = std::move(node);
    return index;
  }

  std::vector<GrownNode> take() { return std::move(nodes_); }

 private:
  const HeuristicData& data_;
  const RegretTable& regrets_;
  GrowOptions options_;
  std::vector<GrownNode> nodes_;
};

/// Appends the part of `tree` below `index`. Returns the index of its root in `out`.
std::int32_t copy_pruned(const std::vector<GrownNode>& tree, std::int32_t index, int depth,
                         std::vector<GrownNode>& out) {
  const auto place = static_cast<std::int32_t>(out.size());
  GrownNode node = tree[static_cast<std::size_t>(index)];
  const std::int32_t yes = std::exchange(node.yes, -1), no = std::exchange(node.no, -1);
  out.push_back(node);
  if (yes >= 0 && depth > 0) {
    node.yes = copy_pruned(tree, yes, depth - 1, out);
    node.no = copy_pruned(tree, no, depth - 1, out);
    const GrownNode& a = out[static_cast<std::size_t>(node.yes)];
    const GrownNode& b = out[static_cast<std::size_t>(node.no)];
    if (a.is_leaf() && b.is_leaf() && a.ranking[0] == b.ranking[0] &&
        a.ranking[0] == node.ranking[0]) {
      out.resize(static_cast<std::size_t>(place) + 1);
      return place;
    }
    out[static_cast<std::size_t>(place)] = std::move(node);
  }
  GrownNode& placed = out[static_cast<std::size_t>(place)];
  if (placed.is_leaf()) placed.split = {};
  return place;
}

}  // namespace

std::vector<GrownNode> grow_tree(const HeuristicData& data, const RegretTable& regrets,
                                 std::vector<std::int32_t> problems, const GrowOptions& options) {
  Grower grower(data, regrets, options);
  grower.grow(std::move(problems), 0);
  return grower.take();
}

const GrownNode& node_of(const HeuristicData& data, const std::vector<GrownNode>& tree,
                         const HeuristicProblem& problem, int depth) {
  const GrownNode* node = tree.data();
  for (; !node->is_leaf() && depth > 0; --depth) {
    const bool yes = node->split.says_yes(data, problem);
    node = &tree[static_cast<std::size_t>(yes ? node->yes : node->no)];
  }
  return *node;
}

std::vector<GrownNode> pruned(const std::vector<GrownNode>& tree, int depth) {
  std::vector<GrownNode> out;
  copy_pruned(tree, 0, depth, out);
  for (GrownNode& node : out) {
    if (node.is_leaf()) node.split = {};
  }
  return out;
}

}  // namespace heddle
