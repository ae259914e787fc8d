#include "heuristics/random_tree.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace heddle {
namespace {

TrainedFeature random_feature(int index, Rng& rng) {
  TrainedFeature f;
  f.name = "f" + std::to_string(index);
  f.kind = static_cast<FeatureKind>(rng.uniform_int(0, 2));
  if (f.kind == FeatureKind::Boolean) {
    f.most = static_cast<double>(rng.uniform_int(0, 1));
  } else if (f.kind == FeatureKind::Numeric) {
    f.least = rng.normal() * 100;
    f.most = f.least + (rng.chance(0.1) ? 0 : rng.uniform_real(0, 300));
  } else {
    const std::int64_t count = rng.chance(0.1) ? kMostCategories : rng.uniform_int(1, 9);
    for (std::int64_t i = 0; i < count; ++i) f.values.push_back("v" + std::to_string(i));
    f.seen = rng() | 1;
    if (count < kMostCategories) f.seen &= (std::uint64_t{1} << count) - 1;
  }
  return f;
}

std::uint64_t all_of(const TrainedFeature& f) {
  return f.values.size() == kMostCategories ? ~std::uint64_t{0}
                                            : (std::uint64_t{1} << f.values.size()) - 1;
}

TreeLeaf random_leaf(TrainedTree& tree, Rng& rng) {
  TreeLeaf leaf;
  leaf.verdict = static_cast<LeafVerdict>(rng.uniform_int(0, 2));
  leaf.support = static_cast<std::int32_t>(rng.uniform_int(1, 100));
  leaf.regret = rng.uniform_real();
  leaf.regret_bound = leaf.regret + rng.uniform_real();
  leaf.loss = rng.normal();
  leaf.loss_bound = leaf.loss + rng.uniform_real();
  leaf.worst_loss = leaf.loss + rng.uniform_real();
  leaf.first = static_cast<std::int32_t>(tree.ranking.size());
  leaf.count = static_cast<std::int32_t>(rng.uniform_int(1, 4));
  for (int i = 0; i < leaf.count; ++i) {
    const bool rule = rng.chance(0.2) && (i > 0 || leaf.verdict != LeafVerdict::Choice);
    const auto last = static_cast<std::int64_t>(tree.choices.size()) - 1;
    tree.ranking.push_back(
        {rule ? kRuleChoice : static_cast<std::int32_t>(rng.uniform_int(0, last)),
         1 + rng.uniform_real()});
  }
  return leaf;
}

/// Adds a random tree to `nodes`. `add_leaf` returns the number of a new leaf.
std::int32_t grow(const TrainedTree& tree, std::vector<TreeNode>& nodes, int depth, Rng& rng,
                  const std::function<std::int32_t()>& add_leaf) {
  const std::size_t index = nodes.size();
  nodes.emplace_back();
  TreeNode node;
  if (depth == 0 || rng.chance(0.2)) {
    node.yes = add_leaf();
  } else {
    const auto last = static_cast<std::int64_t>(tree.features.size()) - 1;
    node.feature = static_cast<std::int32_t>(rng.uniform_int(0, last));
    const TrainedFeature& f = tree.features[static_cast<std::size_t>(node.feature)];
    if (f.kind == FeatureKind::Categorical) {
      node.one_of = rng() & all_of(f);
      if (node.one_of == 0) node.one_of = all_of(f);
    } else {
      node.at_most = rng.uniform_real(f.least, f.most);
    }
    node.yes = grow(tree, nodes, depth - 1, rng, add_leaf);
    node.no = grow(tree, nodes, depth - 1, rng, add_leaf);
  }
  nodes[index] = node;
  return static_cast<std::int32_t>(index);
}

}  // namespace

TrainedTree random_tree(Rng& rng) {
  TrainedTree tree;
  tree.heuristic = "random";
  tree.version = "3";
  tree.machine = "a \"machine\"";
  tree.date = "2026-11-22";
  tree.problems = 100;
  tree.measurements = 1000;
  tree.seed = rng();
  tree.margin = rng.uniform_real();
  tree.limits = {0.9, 0.02, 0.25, 0.03};
  const std::int64_t features = rng.uniform_int(1, 6);
  for (int i = 0; i < features; ++i) tree.features.push_back(random_feature(i, rng));
  for (int i = 0; i < 5; ++i) tree.choices.push_back("{\"tile\":" + std::to_string(i) + "}");
  grow(tree, tree.nodes, static_cast<int>(rng.uniform_int(0, 7)), rng, [&] {
    tree.leaves.push_back(random_leaf(tree, rng));
    return static_cast<std::int32_t>(tree.leaves.size()) - 1;
  });
  for (std::int64_t terms = rng.uniform_int(0, 9); terms > 0; --terms) {
    SumTerm& term = tree.sum.emplace_back();
    grow(tree, term.nodes, static_cast<int>(rng.uniform_int(0, 4)), rng, [&] {
      const std::size_t leaf = term.values.size() / tree.choices.size();
      for (std::size_t c = 0; c < tree.choices.size(); ++c)
        term.values.push_back(static_cast<float>(rng.normal() * 0.1 - 0.02));
      return static_cast<std::int32_t>(leaf);
    });
  }
  return tree;
}

std::vector<double> random_problem(const TrainedTree& tree, Rng& rng) {
  std::vector<double> problem;
  for (const TrainedFeature& f : tree.features) {
    if (rng.chance(0.02)) {
      problem.push_back(std::numeric_limits<double>::quiet_NaN());
    } else if (rng.chance(0.05)) {
      problem.push_back(rng.normal() * 1000);
    } else if (f.kind == FeatureKind::Categorical) {
      std::int64_t value = rng.uniform_int(0, static_cast<std::int64_t>(f.values.size()) - 1);
      if (rng.chance(0.9) && ((f.seen >> value) & 1U) == 0) value = 0;
      problem.push_back(static_cast<double>(value));
    } else if (f.kind == FeatureKind::Boolean) {
      problem.push_back(static_cast<double>(rng.uniform_int(0, static_cast<std::int64_t>(f.most))));
    } else {
      problem.push_back(f.least == f.most ? f.least : rng.uniform_real(f.least, f.most));
    }
  }
  return problem;
}

}  // namespace heddle
