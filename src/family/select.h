// Which kernels of a family to keep, and the tree that names one for each size, from the times of
// all candidates at some sizes.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/runtime/family_kernel.h"

namespace heddle::family {

/// A problem of the race: the sizes of a call, their expected frequency, and the time of each
/// candidate.
struct Raced {
  std::vector<int64_t> sizes;
  double weight = 1;
  std::vector<double> seconds;
};

/// The mean of log(time / time of the best candidate) over the weights, where at each problem the
/// best of `kept` runs.
double expected_loss(const std::vector<Raced>& raced, const std::vector<int>& kept);

/// At most `most` candidates, ordered by how much each lowers the expected loss. A candidate that
/// lowers it by less than 1 % is not kept.
std::vector<int> select(const std::vector<Raced>& raced, int most);

/// A tree whose leaves name positions in `kept`. A question is asked where it lowers the expected
/// loss by more than half a percent.
SizeTree grow(const std::vector<Raced>& raced, const std::vector<int>& kept);

}  // namespace heddle::family
