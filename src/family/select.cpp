#include "family/select.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "support/tree/grow.h"

namespace heddle::family {
namespace {

constexpr double kLeastGain = 0.01;        // the least gain for which a candidate is kept
constexpr double kLeastSplitGain = 0.005;  // the least gain for which a question is kept

double best_of_all(const Raced& r) { return *std::min_element(r.seconds.begin(), r.seconds.end()); }

double loss_of(const Raced& r, int candidate) {
  return r.weight * std::log(r.seconds[static_cast<size_t>(candidate)] / best_of_all(r));
}

double total_weight(const std::vector<Raced>& raced) {
  double sum = 0;
  for (const Raced& r : raced) sum += r.weight;
  return sum > 0 ? sum : 1;
}

/// The threshold between two raced sizes is their geometric mean.
double geometric_mean(double low, double high) { return std::floor(std::sqrt(low * high)); }

}  // namespace

double expected_loss(const std::vector<Raced>& raced, const std::vector<int>& kept) {
  double sum = 0;
  for (const Raced& r : raced) {
    double least = std::numeric_limits<double>::infinity();
    for (const int v : kept) least = std::min(least, loss_of(r, v));
    sum += least;
  }
  return sum / total_weight(raced);
}

std::vector<int> select(const std::vector<Raced>& raced, int most) {
  const int count = raced.empty() ? 0 : static_cast<int>(raced[0].seconds.size());
  std::vector<int> kept;
  double loss = std::numeric_limits<double>::infinity();
  while (static_cast<int>(kept.size()) < most) {
    int add = -1;
    double least = loss;
    for (int v = 0; v < count; ++v) {
      std::vector<int> with = kept;
      with.push_back(v);
      const double l = expected_loss(raced, with);
      if (l < least) least = l, add = v;
    }
    if (add < 0 || (!kept.empty() && loss - least < kLeastGain)) break;
    kept.push_back(add);
    loss = least;
    // A candidate that was kept by an earlier step may now be replaced by a better one.
    for (size_t i = 0; i < kept.size(); ++i) {
      for (int v = 0; v < count; ++v) {
        std::vector<int> other = kept;
        other[i] = v;
        if (const double l = expected_loss(raced, other); l < loss) loss = l, kept = other;
      }
    }
  }
  return kept;
}

SizeTree grow(const std::vector<Raced>& raced, const std::vector<int>& kept) {
  std::vector<std::vector<double>> sizes, losses;
  std::vector<std::int32_t> all;
  for (const Raced& r : raced) {
    all.push_back(static_cast<std::int32_t>(sizes.size()));
    sizes.emplace_back(r.sizes.begin(), r.sizes.end());
    losses.emplace_back();
    for (const int v : kept) losses.back().push_back(loss_of(r, v));
  }
  TreeExamples examples{.all = {}, .categories = {}, .answers = static_cast<int>(kept.size())};
  for (size_t i = 0; i < sizes.size(); ++i) examples.all.push_back({sizes[i], losses[i]});
  if (!sizes.empty()) examples.categories.resize(sizes[0].size());
  SizeTree tree;
  for (const GrownNode& node : grow_tree(examples, std::move(all),
                                         {.look_ahead = true,
                                          .least_gain = kLeastSplitGain * total_weight(raced),
                                          .threshold = geometric_mean}))
    tree.push_back(node.question);
  return tree;
}

}  // namespace heddle::family
