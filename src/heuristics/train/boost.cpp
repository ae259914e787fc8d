#include "heuristics/train/boost.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace heddle::learning {
namespace {

/// Values of leaves are rounded to this, so that files are short and do not depend on rounding
/// errors.
constexpr double kUnit = 1e-4;
constexpr int kThresholds = 32;

/// The squared error of leaves of so many examples, relative to that of leaves of value 0.
double error_of_leaf(std::span<const double> sums, int examples, double shrinkage) {
  double squares[4] = {0, 0, 0, 0};  // independent sums, which a processor adds side by side
  std::size_t i = 0;
  for (; i + 4 <= sums.size(); i += 4) {
    for (std::size_t j = 0; j < 4; ++j) squares[j] += sums[i + j] * sums[i + j];
  }
  for (; i < sums.size(); ++i) squares[0] += sums[i] * sums[i];
  return -(squares[0] + squares[1] + squares[2] + squares[3]) / (examples + shrinkage);
}

class Booster {
 public:
  Booster(const HeuristicData& data, const RegretTable& regrets, const TrainOptions& options)
      : options_(options), width_(static_cast<std::size_t>(regrets.columns()) - 1) {
    left_.reserve(data.problems.size() * width_);
    for (std::size_t p = 0; p < data.problems.size(); ++p) {
      const std::span<const double> losses = regrets.losses(static_cast<std::int32_t>(p));
      left_.insert(left_.end(), losses.begin() + 1, losses.end());
    }
    examples_ = examples_of(data, left_, width_);
  }

  SumTerm next_term(const std::vector<std::int32_t>& problems) {
    const GrowRules rules{.depth = options_.depth,
                          .leaf_size = options_.leaf_size,
                          .thresholds = kThresholds,
                          .cost = [s = options_.shrinkage](std::span<const double> sums, int n) {
                            return error_of_leaf(sums, n, s);
                          }};
    SumTerm term;
    for (const GrownNode& node : grow_tree(examples_, problems, rules)) {
      term.nodes.push_back(node.question);
      if (node.is_leaf()) add_leaf(node.examples, term);
    }
    return term;
  }

 private:
  std::span<double> row(std::int32_t problem) {
    return std::span(left_).subspan(static_cast<std::size_t>(problem) * width_, width_);
  }

  /// Adds the row of a leaf, and takes it from what is left of its examples.
  void add_leaf(const std::vector<std::int32_t>& examples, SumTerm& term) {
    term.nodes.back().yes = static_cast<std::int32_t>(term.values.size() / width_);
    const double share =
        options_.rate / (static_cast<double>(examples.size()) + options_.shrinkage);
    for (std::size_t c = 0; c < width_; ++c) {
      double sum = 0;
      for (const std::int32_t e : examples) sum += row(e)[c];
      const auto value = static_cast<float>(std::round(sum * share / kUnit) * kUnit);
      term.values.push_back(value);
      for (const std::int32_t e : examples) row(e)[c] -= value;
    }
  }

  const TrainOptions& options_;
  const std::size_t width_;
  std::vector<double> left_;  ///< of each problem a row: what the trees so far leave
  TreeExamples examples_;
};

}  // namespace

TreeExamples examples_of(const HeuristicData& data, std::span<const double> rows,
                         std::size_t width) {
  TreeExamples examples{.all = {}, .categories = {}, .answers = static_cast<int>(width)};
  for (std::size_t p = 0; p < data.problems.size(); ++p)
    examples.all.push_back({data.problems[p].features, rows.subspan(p * width, width)});
  for (const HeuristicFeature& f : data.features)
    examples.categories.push_back(static_cast<int>(f.values.size()));
  return examples;
}

std::vector<SumTerm> boost(const HeuristicData& data, const RegretTable& regrets,
                           std::vector<std::int32_t> problems, const TrainOptions& options) {
  std::vector<SumTerm> sum;
  if (regrets.columns() < 2) return sum;
  Booster booster(data, regrets, options);
  for (int t = 0; t < options.terms; ++t) sum.push_back(booster.next_term(problems));
  return sum;
}

void RunningSum::add(const SumTerm& term) {
  const auto leaf = static_cast<std::size_t>(walk(term.nodes, features_));
  for (std::size_t c = 0; c < predicted_.size(); ++c)
    predicted_[c] += term.values[leaf * predicted_.size() + c];
}

int RunningSum::answer(const RegretTable& regrets, std::int32_t problem, double least_gain) const {
  const auto best = std::min_element(predicted_.begin(), predicted_.end());
  if (best == predicted_.end() || *best >= -std::log1p(least_gain)) return 0;
  const int column = static_cast<int>(best - predicted_.begin()) + 1;
  return regrets.available(problem, column) ? column : 0;
}

}  // namespace heddle::learning
