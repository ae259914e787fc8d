#include "support/tree/grow.h"

#include <algorithm>
#include <utility>

namespace heddle {
namespace {

class Grower {
 public:
  Grower(const TreeExamples& examples, const GrowRules& rules)
      : examples_(examples), rules_(rules) {}

  /// Adds the tree over `which`, and returns what its answers cost.
  double grow(std::vector<std::int32_t> which, int depth) {
    const std::size_t index = nodes_.size();
    nodes_.emplace_back();
    const auto [answer, leaf_cost] = best_answer(which);
    nodes_[index].question.yes = answer;
    double cost = leaf_cost;
    const bool may_split =
        depth < rules_.depth && std::ssize(which) >= std::ptrdiff_t{2} * rules_.leaf_size;
    TreeNode asked;
    if (may_split) asked = best_split(examples_, which, rules_);
    if (asked.feature >= 0) {
      std::vector<std::int32_t> yes, no;
      for (const std::int32_t e : which) (says_yes(asked, value(e, asked)) ? yes : no).push_back(e);
      asked.yes = static_cast<std::int32_t>(nodes_.size());
      cost = grow(std::move(yes), depth + 1);
      asked.no = static_cast<std::int32_t>(nodes_.size());
      cost += grow(std::move(no), depth + 1);
      if (leaf_cost - cost > rules_.least_gain) {
        nodes_[index].question = asked;
      } else {
        nodes_.resize(index + 1);
        cost = leaf_cost;
      }
    }
    nodes_[index].examples = std::move(which);
    return cost;
  }

  std::vector<GrownNode> take() { return std::move(nodes_); }

 private:
  double value(std::int32_t example, const TreeNode& asked) const {
    return examples_.all[static_cast<std::size_t>(example)]
        .features[static_cast<std::size_t>(asked.feature)];
  }

  /// The answer of least cost over these examples, and the cost.
  std::pair<std::int32_t, double> best_answer(std::span<const std::int32_t> which) const {
    std::vector<double> sums(static_cast<std::size_t>(examples_.answers), 0);
    for (const std::int32_t e : which) {
      const std::span<const double> costs = examples_.all[static_cast<std::size_t>(e)].costs;
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += costs[i];
    }
    const auto best = std::min_element(sums.begin(), sums.end());
    return {static_cast<std::int32_t>(best - sums.begin()),
            rules_.cost(sums, static_cast<int>(which.size()))};
  }

  const TreeExamples& examples_;
  const GrowRules& rules_;
  std::vector<GrownNode> nodes_;
};

}  // namespace

double cost_of_one_answer(std::span<const double> sums, int /*examples*/) {
  return *std::min_element(sums.begin(), sums.end());
}

double middle_between(double low, double high) {
  const double middle = low + (high - low) / 2;
  return middle > low && middle < high ? middle : low;
}

std::vector<GrownNode> grow_tree(const TreeExamples& examples, std::vector<std::int32_t> which,
                                 const GrowRules& rules) {
  Grower grower(examples, rules);
  grower.grow(std::move(which), 0);
  return grower.take();
}

}  // namespace heddle
