#include "schedule/groups/recomputation.h"

#include <algorithm>

#include "heddle/dag/operations.h"

namespace heddle {

Recomputation recomputation(const ComputeDag& dag, int s, double times, const MachineRates& rates) {
  const StageInfo& info = dag.info(s);
  const int element = dag.stage(s).output(0).dtype().bytes();
  const auto points = static_cast<double>(info.points);
  // Readers that do not read the stage read what it reads.
  const double moved = 2 * points * element;
  return {times, std::max(0.0, times - 1) * points * operations_per_point(info) / rates.flops,
          rates.start_seconds + rates.seconds_of(moved, moved)};
}

}  // namespace heddle
