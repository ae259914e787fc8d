// The static choice near a size that holds for all sizes of a family.
#pragma once

#include <vector>

#include "heddle/dag/instance.h"
#include "heddle/schedule/schedule.h"

namespace heddle::family {

struct NearChoice {
  std::vector<SizeValue> at;  ///< where it was made
  Schedule schedule;          ///< of the declaration at these sizes
};

/// The choice of create_schedule at the sizes `at`, without alternatives. Where it uses a matrix
/// unit of a CPU, whose tiles have no tails, it is that of the nearest sizes whose operands are
/// padded to whole tiles, else that for the same CPU without the matrix unit.
NearChoice choice_near(const std::vector<Tensor>& outputs, const std::vector<SizeValue>& at,
                       const Target& target, const AutoSchedulerOptions& options);

}  // namespace heddle::family
