// What calibration tries: values of constants, and what they do to races.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "heddle/target/rule_constants.h"
#include "heuristics/train/confidence.h"

namespace heddle::learning {

/// The place of a value in its range, from 0 to 1. Ranges of positive numbers are logarithmic.
inline double place_of(const ConstantInfo& info, double value) {
  if (info.low > 0) return std::log(value / info.low) / std::log(info.high / info.low);
  return (value - info.low) / (info.high - info.low);
}

/// A constant that decides, and the races that it decides.
struct OpenConstant {
  const ConstantInfo* info = nullptr;
  std::vector<std::size_t> races = {};
};

/// What a value of a constant does to each race, relative to the constants so far.
struct Move {
  double value = 0;
  double pull = 0;                 ///< towards the value so far
  std::vector<double> gains = {};  ///< log(time / time so far); unknown where it was not measured
  bool counts = false;             ///< enough of what it changes was measured
};

/// The best move of a constant, and what moves chosen without them did on held-out races.
struct Trial {
  const OpenConstant* open = nullptr;
  double value = 0;
  std::vector<double> held_out;

  double variance() const {
    return squared_deviations(held_out) / static_cast<double>(held_out.size() - 1);
  }
  /// The mean loss over its standard error.
  double score() const {
    return mean_of(held_out) /
           std::sqrt(std::max(1e-300, variance() / static_cast<double>(held_out.size())));
  }
};

inline double mean_known(const std::vector<double>& gains, const std::vector<int>& folds,
                         int without) {
  double sum = 0;
  int count = 0;
  for (std::size_t r = 0; r < gains.size(); ++r) {
    if (folds[r] == without || std::isnan(gains[r])) continue;
    sum += gains[r];
    ++count;
  }
  return count == 0 ? 0 : sum / count;
}

}  // namespace heddle::learning
