#include <algorithm>
#include <limits>
#include <utility>

#include "support/tree/grow.h"

namespace heddle {
namespace {

/// A smaller gain is within rounding errors.
constexpr double kLeastGain = 1e-7;
/// Up to this number of values all subsets are tried. With more values the set grows by one at a
/// time.
constexpr int kMostEnumerated = 8;

using Sums = std::vector<double>;

void add(std::span<const double> values, Sums& sums) {
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += values[i];
}

/// The state of a search over the splits of one node.
class SplitSearch {
 public:
  SplitSearch(const TreeExamples& examples, std::span<const std::int32_t> which,
              const GrowRules& rules)
      : examples_(examples),
        which_(which),
        rules_(rules),
        total_(static_cast<std::size_t>(examples.answers), 0) {
    for (const std::int32_t e : which) add(example(e).costs, total_);
    least_cost_ = rules.look_ahead ? std::numeric_limits<double>::infinity()
                                   : rules.cost(total_, static_cast<int>(which_.size()));
    rest_.resize(total_.size());
  }

  TreeNode run() {
    for (std::size_t f = 0; f < examples_.categories.size(); ++f) {
      if (examples_.categories[f] > 0) {
        try_categories(f);
      } else {
        try_thresholds(f);
      }
    }
    return best_;
  }

 private:
  const TreeExample& example(std::int32_t index) const {
    return examples_.all[static_cast<std::size_t>(index)];
  }
  double value(std::int32_t index, std::size_t feature) const {
    return example(index).features[feature];
  }

  bool large_enough(int count) const {
    return count >= rules_.leaf_size && std::ssize(which_) - count >= rules_.leaf_size;
  }

  /// The cost of a question that `count` examples with these sums answer with yes.
  double cost_of(const Sums& yes, int count) {
    for (std::size_t i = 0; i < rest_.size(); ++i) rest_[i] = total_[i] - yes[i];
    return rules_.cost(yes, count) + rules_.cost(rest_, static_cast<int>(which_.size()) - count);
  }

  void offer(const TreeNode& split, const Sums& yes, int count) {
    if (!large_enough(count)) return;
    const double cost = cost_of(yes, count);
    if (cost >= least_cost_ - kLeastGain) return;
    least_cost_ = cost;
    best_ = split;
  }

  void try_thresholds(std::size_t feature) {
    std::vector<std::pair<double, std::int32_t>> order;
    for (const std::int32_t e : which_) order.emplace_back(value(e, feature), e);
    std::sort(order.begin(), order.end());
    if (order.empty() || order.front().first == order.back().first) return;
    Sums yes(total_.size(), 0);
    std::size_t since = 0;  // examples after the last threshold
    for (std::size_t i = 0; i + 1 < order.size(); ++i) {
      add(example(order[i].second).costs, yes);
      const bool due = ++since * static_cast<std::size_t>(rules_.thresholds) >= order.size();
      if (!due || order[i].first == order[i + 1].first) continue;
      since = 0;
      const double at_most = rules_.threshold(order[i].first, order[i + 1].first);
      offer({.feature = static_cast<std::int32_t>(feature), .at_most = at_most}, yes,
            static_cast<int>(i) + 1);
    }
  }

  struct Category {
    std::uint64_t bit = 0;
    int count = 0;
    Sums sums;
  };

  std::vector<Category> categories(std::size_t feature) const {
    std::vector<Category> all(static_cast<std::size_t>(examples_.categories[feature]));
    for (std::size_t v = 0; v < all.size(); ++v) {
      all[v].bit = std::uint64_t{1} << v;
      all[v].sums.assign(total_.size(), 0);
    }
    for (const std::int32_t e : which_) {
      Category& category = all[static_cast<std::size_t>(value(e, feature))];
      ++category.count;
      add(example(e).costs, category.sums);
    }
    std::erase_if(all, [](const Category& c) { return c.count == 0; });
    return all;
  }

  void try_categories(std::size_t feature) {
    const std::vector<Category> seen = categories(feature);
    if (seen.size() < 2) return;
    if (static_cast<int>(seen.size()) <= kMostEnumerated) {
      try_all_sets(feature, seen);
    } else {
      try_growing_sets(feature, seen);
    }
  }

  /// Tries sets without the last value, so that a set and its complement are not both tried.
  void try_all_sets(std::size_t feature, const std::vector<Category>& seen) {
    for (std::uint32_t set = 1; set < (1U << (seen.size() - 1)); ++set) {
      TreeNode split{.feature = static_cast<std::int32_t>(feature)};
      Sums yes(total_.size(), 0);
      int count = 0;
      for (std::size_t i = 0; i < seen.size(); ++i) {
        if (((set >> i) & 1U) == 0) continue;
        split.one_of |= seen[i].bit;
        count += seen[i].count;
        add(seen[i].sums, yes);
      }
      offer(split, yes, count);
    }
  }

  /// Adds the value that lowers the cost most, until all values but one are in the set.
  void try_growing_sets(std::size_t feature, std::vector<Category> left) {
    TreeNode split{.feature = static_cast<std::int32_t>(feature)};
    Sums yes(total_.size(), 0);
    int count = 0;
    while (left.size() > 1) {
      std::size_t next = 0;
      double next_cost = 0;
      for (std::size_t i = 0; i < left.size(); ++i) {
        Sums sums = yes;
        add(left[i].sums, sums);
        const double cost = cost_of(sums, count + left[i].count);
        if (i == 0 || cost < next_cost - kLeastGain) {
          next = i;
          next_cost = cost;
        }
      }
      split.one_of |= left[next].bit;
      count += left[next].count;
      add(left[next].sums, yes);
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(next));
      offer(split, yes, count);
    }
  }

  const TreeExamples& examples_;
  std::span<const std::int32_t> which_;
  const GrowRules& rules_;
  Sums total_, rest_;
  TreeNode best_;
  double least_cost_ = 0;
};

}  // namespace

TreeNode best_split(const TreeExamples& examples, std::span<const std::int32_t> which,
                    const GrowRules& rules) {
  return SplitSearch(examples, which, rules).run();
}

}  // namespace heddle
