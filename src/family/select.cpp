#include "family/select.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

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

/// The kept candidate with the least loss over some problems, by its position in `kept`.
struct Leaf {
  int variant = 0;
  double loss = std::numeric_limits<double>::infinity();
};
Leaf best_leaf(const std::vector<const Raced*>& here, const std::vector<int>& kept) {
  Leaf best;
  for (size_t v = 0; v < kept.size(); ++v) {
    double loss = 0;
    for (const Raced* r : here) loss += loss_of(*r, kept[v]);
    if (loss < best.loss) best = {static_cast<int>(v), loss};
  }
  return best;
}

class Grower {
 public:
  Grower(const std::vector<Raced>& raced, const std::vector<int>& kept)
      : kept_(kept), least_gain_(kLeastSplitGain * total_weight(raced)) {
    std::vector<const Raced*> all;
    for (const Raced& r : raced) all.push_back(&r);
    grow(all);
  }
  SizeTree tree;

 private:
  struct Question {
    int size = -1;
    int64_t at_most = 0;
    double loss = std::numeric_limits<double>::infinity();
  };

  static std::pair<std::vector<const Raced*>, std::vector<const Raced*>> cut(
      const std::vector<const Raced*>& here, const Question& q) {
    std::pair<std::vector<const Raced*>, std::vector<const Raced*>> out;
    for (const Raced* r : here)
      (r->sizes[static_cast<size_t>(q.size)] <= q.at_most ? out.first : out.second).push_back(r);
    return out;
  }

  Question best_question(const std::vector<const Raced*>& here) const {
    Question best;
    for (size_t s = 0; !here.empty() && s < here[0]->sizes.size(); ++s) {
      std::set<int64_t> values;
      for (const Raced* r : here) values.insert(r->sizes[s]);
      for (auto at = values.begin(); std::next(at) != values.end(); ++at) {
        // The threshold between two raced sizes is their geometric mean.
        const double middle =
            std::sqrt(static_cast<double>(*at) * static_cast<double>(*std::next(at)));
        Question q{static_cast<int>(s), static_cast<int64_t>(middle), 0};
        const auto [yes, no] = cut(here, q);
        q.loss = best_leaf(yes, kept_).loss + best_leaf(no, kept_).loss;
        if (q.loss < best.loss) best = q;
      }
    }
    return best;
  }

  /// Adds the tree of some problems and returns its loss. A question is asked even if it helps only
  /// together with the next one. Questions that did not help are removed afterwards.
  double grow(const std::vector<const Raced*>& here) {
    const auto id = tree.size();
    tree.emplace_back();
    const Leaf leaf = best_leaf(here, kept_);
    tree[id].variant = leaf.variant;
    if (leaf.loss - ideal(here) <= least_gain_) return leaf.loss;
    const Question q = best_question(here);
    if (q.size < 0) return leaf.loss;
    const auto [yes, no] = cut(here, q);
    const auto at_yes = static_cast<int>(tree.size());
    double loss = grow(yes);
    const auto at_no = static_cast<int>(tree.size());
    loss += grow(no);
    if (leaf.loss - loss <= least_gain_) {
      tree.resize(id + 1);
      return leaf.loss;
    }
    tree[id] = {q.size, q.at_most, at_yes, at_no, 0};
    return loss;
  }

  /// The loss where each problem runs the best of the kept candidates.
  double ideal(const std::vector<const Raced*>& here) const {
    double sum = 0;
    for (const Raced* r : here) {
      double least = std::numeric_limits<double>::infinity();
      for (const int v : kept_) least = std::min(least, loss_of(*r, v));
      sum += least;
    }
    return sum;
  }

  const std::vector<int>& kept_;
  double least_gain_;
};

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
  return Grower(raced, kept).tree;
}

}  // namespace heddle::family
