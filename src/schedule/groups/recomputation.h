// What it costs to compute the elements of a stage again for its readers, and to store them instead.
#pragma once

#include "heddle/dag/compute_dag.h"
#include "schedule/groups/machine_rates.h"

namespace heddle {

/// A stage whose elements are computed `times` times, on average.
struct Recomputation {
  /// A stage is not stored for being computed this often.
  static constexpr double kFreely = 2;

  double times = 1;
  double again_seconds = 0;  ///< of the arithmetic beyond the first time
  double store_seconds = 0;  ///< to write all elements in a loop nest of its own, and to read what
                             ///< they are made of there

  /// Whether computing the stage again costs no more than storing it. `carried`: the seconds that
  /// stages between it and the next stored one already take beyond their first time. Whoever stores
  /// it saves none of these, but in a chain of stages each of which alone is cheap to compute again
  /// one has to be stored in the end. What is wasted until then is at most what storing takes.
  bool pays(double carried = 0) const {
    return times <= kFreely || carried + again_seconds <= store_seconds;
  }
};

/// The costs of stage `s`, if its elements are computed `times` times.
Recomputation recomputation(const ComputeDag& dag, int s, double times, const MachineRates& rates);

}  // namespace heddle
