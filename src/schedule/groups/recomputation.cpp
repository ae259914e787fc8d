#include "schedule/groups/recomputation.h"

#include <algorithm>

namespace heddle {

Recomputation recomputation(const ComputeDag& dag, int s, double times, const MachineRates& rates) {
  constexpr double kSlow = 10;  // operations of the time of an exp or a division
  const StageInfo& info = dag.info(s);
  const int element = dag.stage(s).output(0).dtype().bytes();
  const auto points = static_cast<double>(info.points);
  const double flops = info.flops_per_point + (kSlow - 1) * info.transcendentals_per_point;
  // Readers that do not read the stage read what it reads.
  constexpr double kPasses = 2;
  return {times, std::max(0.0, times - 1) * points * flops / rates.flops,
          rates.start_seconds + points * element * kPasses / rates.bytes};
}

}  // namespace heddle
