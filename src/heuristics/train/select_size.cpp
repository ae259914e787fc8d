#include "heuristics/train/select_size.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "heuristics/train/grow_tree.h"

namespace heddle::learning {
namespace {

struct Candidate {
  TreeSize size;
  std::int64_t leaves = 0;  ///< sum over the trees of all folds
  double regret = 0;        ///< mean over the known problems
};

std::int64_t leaves_at(const std::vector<RankedNode>& tree, int depth) {
  const std::vector<RankedNode> cut = pruned(tree, depth);
  return std::count_if(cut.begin(), cut.end(), [](const RankedNode& n) { return n.is_leaf(); });
}

/// The answers of all depths for one size of leaves. Cutting a tree at a depth gives the tree that
/// would have been grown to that depth, so each fold grows one tree.
std::vector<Candidate> candidates_of(const HeuristicData& data, const RegretTable& regrets,
                                     std::span<const std::int32_t> known,
                                     const std::vector<std::int32_t>& fold, int leaf_size,
                                     const TrainOptions& options) {
  std::vector<Candidate> out(static_cast<std::size_t>(options.deepest) + 1);
  for (std::size_t d = 0; d < out.size(); ++d) {
    out[d].size = {static_cast<int>(d), leaf_size, std::vector<int>(data.problems.size(), -1)};
  }
  for (int f = 0; f < options.folds; ++f) {
    std::vector<std::int32_t> seen, held_out;
    for (const std::int32_t p : known) {
      (fold[static_cast<std::size_t>(p)] == f ? held_out : seen).push_back(p);
    }
    const std::vector<RankedNode> tree =
        grow_ranked_tree(data, regrets, seen, {options.deepest, leaf_size, options.ranked});
    for (Candidate& candidate : out) {
      candidate.leaves += leaves_at(tree, candidate.size.depth);
      for (const std::int32_t p : held_out) {
        const auto i = static_cast<std::size_t>(p);
        const RankedNode& node = node_of(tree, data.problems[i], candidate.size.depth);
        candidate.size.held_out[i] = regrets.first_available(p, node.ranking);
      }
    }
  }
  return out;
}

double cost_of(const Candidate& candidate, const RegretTable& regrets, std::int32_t problem) {
  const int column = candidate.size.held_out[static_cast<std::size_t>(problem)];
  return regrets.costs(problem)[static_cast<std::size_t>(column)];
}

/// Whether the data show that the regret of `a` is larger than that of `b`.
bool shown_worse(const Candidate& a, const Candidate& b, const RegretTable& regrets,
                 std::span<const std::int32_t> known) {
  double sum = 0, squares = 0;
  for (const std::int32_t p : known) {
    const double difference = cost_of(a, regrets, p) - cost_of(b, regrets, p);
    sum += difference;
    squares += difference * difference;
  }
  const auto n = static_cast<double>(known.size());
  const double mean = sum / n;
  const double variance = std::max(0.0, squares / n - mean * mean);
  return mean > std::sqrt(variance / n) + 1e-9;
}

}  // namespace

TreeSize select_size(const HeuristicData& data, const RegretTable& regrets,
                     std::span<const std::int32_t> known, const TrainOptions& options) {
  const std::vector<std::int32_t> fold = folds_of(data, options.folds, options.seed);
  std::vector<Candidate> all;
  for (const int leaf_size : options.leaf_sizes) {
    for (Candidate& c : candidates_of(data, regrets, known, fold, leaf_size, options)) {
      for (const std::int32_t p : known) c.regret += cost_of(c, regrets, p);
      c.regret /= static_cast<double>(known.size());
      all.push_back(std::move(c));
    }
  }
  const auto best = std::min_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.regret < b.regret - 1e-9;
  });
  const Candidate* chosen = &*best;
  for (const Candidate& c : all) {
    if (c.leaves < chosen->leaves && !shown_worse(c, *best, regrets, known)) chosen = &c;
  }
  return chosen->size;
}

}  // namespace heddle::learning
