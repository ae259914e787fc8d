// How much of a stage a part of its reader computes, where the stage is computed within the reader.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/dag/compute_dag.h"

namespace heddle {

/// The elements of stage `s` that a row of `reader` computes for each that it reads, at most: it
/// computes the box around them.
///
///   y(i, j) = s(i, j) + s(i + 1, j)          1: two rows are read, and computed
///   y(i, j) = s(i, j) + s(n - 1 - i, j)      n / 2: all rows between the two
///   y(i, j) = s(p(i), j)                     infinity: `p` is data, and nothing bounds what is computed
double computed_per_read(const ComputeDag& dag, int s, int reader);

/// Which axes of the output of a group each dimension of a stage follows: a bit for each axis.
class FollowedAxes {
 public:
  explicit FollowedAxes(const ComputeDag& dag) : dag_(dag), of_(static_cast<size_t>(dag.size())) {}

  /// `s` is the output of a group.
  void begin(int s);
  /// `s` is computed in the loops of `output`, for consumers that all are.
  void follow(int s);
  /// How often each element of `s` is computed, if a row of `output` computes what it reads:
  ///
  ///   y(i, j) = s(i, j)     once
  ///   y(i, j) = s(0, j)     as often as `y` has rows
  double times_in_rows(int s, int output) const;

 private:
  const ComputeDag& dag_;
  std::vector<std::vector<uint64_t>> of_;  ///< by stage and dimension
};

}  // namespace heddle
