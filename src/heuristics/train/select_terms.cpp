#include "heuristics/train/select_terms.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "heuristics/train/boost.h"

namespace heddle::learning {
namespace {

/// The numbers of trees that are compared: 1, 2, 3, 4, 6, 8, 12, ... up to `most`.
std::vector<SumSize> sizes_up_to(int most, std::size_t problems) {
  std::vector<SumSize> sizes;
  for (int terms = 1, step = 1; terms < most; terms += step) {
    sizes.push_back({terms, std::vector<int>(problems, -1)});
    if (terms >= 4 * step) step *= 2;
  }
  sizes.push_back({most, std::vector<int>(problems, -1)});
  return sizes;
}

/// Answers the problems of one fold by sums over the others.
void answer_fold(const HeuristicData& data, const RegretTable& regrets,
                 std::vector<std::int32_t> seen, std::span<const std::int32_t> held_out,
                 const TrainOptions& options, std::vector<SumSize>& sizes) {
  const std::vector<SumTerm> sum = boost(data, regrets, std::move(seen), options);
  for (const std::int32_t p : held_out) {
    const auto i = static_cast<std::size_t>(p);
    RunningSum running(data.problems[i], static_cast<std::size_t>(regrets.columns()) - 1);
    std::size_t added = 0;
    for (SumSize& size : sizes) {
      for (; added < std::min(sum.size(), static_cast<std::size_t>(size.terms)); ++added)
        running.add(sum[added]);
      size.held_out[i] = running.answer(regrets, p, options.least_gain);
    }
  }
}

double cost_of(const SumSize& size, const RegretTable& regrets, std::int32_t problem) {
  const int column = size.held_out[static_cast<std::size_t>(problem)];
  return regrets.costs(problem)[static_cast<std::size_t>(column)];
}

double mean_cost(const SumSize& size, const RegretTable& regrets,
                 std::span<const std::int32_t> known) {
  double sum = 0;
  for (const std::int32_t p : known) sum += cost_of(size, regrets, p);
  return sum / static_cast<double>(known.size());
}

/// Whether the data show that the answers have less regret than the rule.
bool beats_rule(const SumSize& size, const RegretTable& regrets,
                std::span<const std::int32_t> known) {
  double sum = 0, squares = 0;
  for (const std::int32_t p : known) {
    const double gain = regrets.costs(p)[0] - cost_of(size, regrets, p);
    sum += gain;
    squares += gain * gain;
  }
  const auto n = static_cast<double>(known.size());
  const double mean = sum / n;
  const double variance = std::max(0.0, squares / n - mean * mean);
  return mean > std::sqrt(variance / n) + 1e-9;
}

}  // namespace

SumSize select_terms(const HeuristicData& data, const RegretTable& regrets,
                     std::span<const std::int32_t> known, const TrainOptions& options) {
  const std::vector<std::int32_t> fold = folds_of(data, options.folds, options.seed);
  std::vector<SumSize> sizes = sizes_up_to(options.terms, data.problems.size());
  for (int f = 0; f < options.folds; ++f) {
    std::vector<std::int32_t> seen, held_out;
    for (const std::int32_t p : known)
      (fold[static_cast<std::size_t>(p)] == f ? held_out : seen).push_back(p);
    answer_fold(data, regrets, std::move(seen), held_out, options, sizes);
  }
  SumSize* best = nullptr;
  double least = 0;
  for (SumSize& size : sizes) {
    const double cost = mean_cost(size, regrets, known);
    if (best != nullptr && cost >= least - 1e-9) continue;
    best = &size;
    least = cost;
  }
  best->answers = beats_rule(*best, regrets, known);
  return std::move(*best);
}

}  // namespace heddle::learning
