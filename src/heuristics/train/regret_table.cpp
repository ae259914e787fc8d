#include "heuristics/train/regret_table.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace heddle::learning {
namespace {

/// Sums of the same numbers in different orders differ by less than this.
constexpr double kRounding = 1e-9;

std::vector<std::int32_t> frequent_choices(const HeuristicData& data, int least) {
  std::vector<int> count(data.choices.size(), 0);
  for (const HeuristicProblem& p : data.problems) {
    for (std::size_t c = 0; c < count.size(); ++c) count[c] += std::isnan(p.seconds[c]) ? 0 : 1;
  }
  std::vector<std::int32_t> choices = {kRuleChoice};
  for (std::size_t c = 0; c < count.size(); ++c) {
    if (count[c] >= least) choices.push_back(static_cast<std::int32_t>(c));
  }
  return choices;
}

}  // namespace

RegretTable::RegretTable(const HeuristicData& data, const TrainOptions& options) : data_(data) {
  choices_ = frequent_choices(data, options.leaf_size);
  const double most = std::log(options.most_slowdown);
  for (const HeuristicProblem& p : data.problems) {
    const double best = p.best();
    const double noise = std::log1p(std::max(p.noise, options.least_noise));
    const double of_rule =
        std::min(std::log(p.seconds[static_cast<std::size_t>(p.fallback)] / best), most);
    for (const std::int32_t choice : choices_) {
      const std::int32_t c = choice == kRuleChoice ? p.fallback : choice;
      const double time = p.seconds[static_cast<std::size_t>(c)];
      // Where a choice is not legal the rule decides.
      const double regret = std::isnan(time) ? of_rule : std::min(std::log(time / best), most);
      regrets_.push_back(regret);
      costs_.push_back(regret <= noise ? 0 : regret);
      losses_.push_back(
          std::isnan(time) ? 0 : std::clamp(std::log(time / best) - of_rule, -most, kMostLoss));
    }
  }
}

bool RegretTable::available(std::int32_t problem, int column) const {
  return column == 0 || data_.problems[static_cast<std::size_t>(problem)].has(choice(column));
}

double RegretTable::loss(std::int32_t problem, int column) const {
  if (column == 0) return 0;
  const HeuristicProblem& p = data_.problems[static_cast<std::size_t>(problem)];
  return std::log(p.seconds[static_cast<std::size_t>(choice(column))] /
                  p.seconds[static_cast<std::size_t>(p.fallback)]);
}

std::vector<int> RegretTable::ranking(std::span<const std::int32_t> problems, int count) const {
  std::vector<double> cost(choices_.size(), 0), regret(choices_.size(), 0);
  for (const std::int32_t p : problems) {
    const std::span<const double> c = costs(p), r = regrets(p);
    for (std::size_t i = 0; i < cost.size(); ++i) {
      cost[i] += c[i];
      regret[i] += r[i];
    }
  }
  // Values are rounded to whole units, because "equal within a tolerance" is not a strict weak
  // order.
  const auto units = [](double value) { return std::llround(value / kRounding); };
  std::vector<int> order(choices_.size());
  std::iota(order.begin(), order.end(), 0);
  const auto kept = std::min<std::ptrdiff_t>(count, std::ssize(order));
  std::partial_sort(order.begin(), order.begin() + kept, order.end(), [&](int a, int b) {
    const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
    if (units(cost[i]) != units(cost[j])) return units(cost[i]) < units(cost[j]);
    if (units(regret[i]) != units(regret[j])) return units(regret[i]) < units(regret[j]);
    return a < b;
  });
  order.resize(static_cast<std::size_t>(kept));
  return order;
}

double RegretTable::mean_regret(std::span<const std::int32_t> problems, int column) const {
  double sum = 0;
  for (const std::int32_t p : problems) sum += regrets(p)[static_cast<std::size_t>(column)];
  return problems.empty() ? 0 : sum / static_cast<double>(problems.size());
}

}  // namespace heddle::learning
