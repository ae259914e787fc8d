// The cost of each choice on each problem, which training minimises.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heddle/heuristics/dataset.h"
#include "heddle/heuristics/train_tree.h"

namespace heddle::learning {

/// Column 0 is the rule, each further column a choice. Choices that fewer problems have than a leaf
/// needs are left out.
class RegretTable {
 public:
  RegretTable(const HeuristicData& data, const TrainOptions& options);

  int columns() const { return static_cast<int>(choices_.size()); }
  /// An index into HeuristicData::choices, or kRuleChoice.
  std::int32_t choice(int column) const { return choices_[static_cast<std::size_t>(column)]; }

  /// The cost of each column: log(time / best time). It is 0 within the noise, and that of
  /// the rule where the choice is missing.
  std::span<const double> costs(std::int32_t problem) const { return row(costs_, problem); }
  /// The same without the allowance for noise.
  std::span<const double> regrets(std::int32_t problem) const { return row(regrets_, problem); }
  /// The loss of each column: log(time / time of the rule), 0 where the choice is missing. Choices
  /// that are much slower than the rule count as `kMostLoss`, because how slow they are decides
  /// nothing.
  std::span<const double> losses(std::int32_t problem) const { return row(losses_, problem); }
  static constexpr double kMostLoss = 0.5;
  bool available(std::int32_t problem, int column) const;
  /// log(time / time of the rule). The column is available.
  double loss(std::int32_t problem, int column) const;

  /// The columns of least mean cost over these problems, at most `count`, best first. Of equal
  /// costs the least mean regret comes first, then the rule, then the first choice.
  std::vector<int> ranking(std::span<const std::int32_t> problems, int count) const;
  double mean_regret(std::span<const std::int32_t> problems, int column) const;

 private:
  std::span<const double> row(const std::vector<double>& values, std::int32_t problem) const {
    const std::size_t width = choices_.size();
    return std::span(values).subspan(static_cast<std::size_t>(problem) * width, width);
  }
  const HeuristicData& data_;
  std::vector<std::int32_t> choices_;
  std::vector<double> costs_, regrets_, losses_;
};

}  // namespace heddle::learning
