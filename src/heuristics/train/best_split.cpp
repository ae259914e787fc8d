#include <algorithm>
#include <bit>
#include <utility>

#include "heuristics/train/grow_tree.h"

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

double least(const Sums& sums) { return *std::min_element(sums.begin(), sums.end()); }

/// The least cost of a choice over `total` without `part`.
double least_of_rest(const Sums& total, const Sums& part) {
  double result = total[0] - part[0];
  for (std::size_t i = 1; i < total.size(); ++i) result = std::min(result, total[i] - part[i]);
  return result;
}

/// The mean of both, or `low` where no number lies between them.
double threshold_between(double low, double high) {
  const double middle = low + (high - low) / 2;
  return middle > low && middle < high ? middle : low;
}

/// The state of a search over the splits of one node.
class SplitSearch {
 public:
  SplitSearch(const HeuristicData& data, const RegretTable& regrets,
              std::span<const std::int32_t> problems, int leaf_size)
      : data_(data),
        regrets_(regrets),
        problems_(problems),
        leaf_size_(leaf_size),
        total_(static_cast<std::size_t>(regrets.columns()), 0) {
    for (const std::int32_t p : problems) add(regrets.costs(p), total_);
    best_.cost = least(total_);
  }

  Split run() {
    for (std::size_t f = 0; f < data_.features.size(); ++f) {
      if (data_.features[f].kind == FeatureKind::Categorical) {
        try_categories(f);
      } else {
        try_thresholds(f);
      }
    }
    return best_;
  }

 private:
  double value(std::int32_t problem, std::size_t feature) const {
    return data_.problems[static_cast<std::size_t>(problem)].features[feature];
  }

  bool large_enough(int count) const {
    return count >= leaf_size_ && std::ssize(problems_) - count >= leaf_size_;
  }

  void offer(Split split, const Sums& yes, int count) {
    if (!large_enough(count)) return;
    split.cost = least(yes) + least_of_rest(total_, yes);
    if (split.cost < best_.cost - kLeastGain) best_ = split;
  }

  void try_thresholds(std::size_t feature) {
    std::vector<std::pair<double, std::int32_t>> order;
    for (const std::int32_t p : problems_) order.emplace_back(value(p, feature), p);
    std::sort(order.begin(), order.end());
    if (order.front().first == order.back().first) return;
    Sums yes(total_.size(), 0);
    for (std::size_t i = 0; i + 1 < order.size(); ++i) {
      add(regrets_.costs(order[i].second), yes);
      if (order[i].first == order[i + 1].first) continue;
      const double at_most = threshold_between(order[i].first, order[i + 1].first);
      offer({static_cast<std::int32_t>(feature), at_most, 0, 0}, yes, static_cast<int>(i) + 1);
    }
  }

  struct Category {
    std::uint64_t bit = 0;
    int count = 0;
    Sums sums;
  };

  std::vector<Category> categories(std::size_t feature) const {
    std::vector<Category> all(data_.features[feature].values.size());
    for (std::size_t v = 0; v < all.size(); ++v) {
      all[v].bit = std::uint64_t{1} << v;
      all[v].sums.assign(total_.size(), 0);
    }
    for (const std::int32_t p : problems_) {
      Category& category = all[static_cast<std::size_t>(value(p, feature))];
      ++category.count;
      add(regrets_.costs(p), category.sums);
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
      Split split{static_cast<std::int32_t>(feature), 0, 0, 0};
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
    Split split{static_cast<std::int32_t>(feature), 0, 0, 0};
    Sums yes(total_.size(), 0);
    int count = 0;
    while (left.size() > 1) {
      std::size_t next = 0;
      double next_cost = 0;
      for (std::size_t i = 0; i < left.size(); ++i) {
        Sums sums = yes;
        add(left[i].sums, sums);
        const double cost = least(sums) + least_of_rest(total_, sums);
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

  const HeuristicData& data_;
  const RegretTable& regrets_;
  std::span<const std::int32_t> problems_;
  int leaf_size_;
  Sums total_;
  Split best_;
};

}  // namespace

Split best_split(const HeuristicData& data, const RegretTable& regrets,
                 std::span<const std::int32_t> problems, int leaf_size) {
  return SplitSearch(data, regrets, problems, leaf_size).run();
}

}  // namespace heddle
