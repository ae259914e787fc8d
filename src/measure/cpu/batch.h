// The candidates of one call of WorkerMeasurer::measure(), in groups, and the lanes in which they run.
#pragma once

#include "heddle/runtime/timer.h"
#include "measure/cpu/measurer.h"

namespace heddle::measuring {

/// A batch in groups.
struct WorkerMeasurer::Groups {
  Batch& batch;
  std::deque<size_t> todo = {};
  std::vector<double> compile_seconds = std::vector<double>(batch.schedules.size());
  std::vector<std::vector<size_t>> compiled = {};  ///< candidates that each worker compiled
  bool base_fails = false;  ///< the static choice failed and is not timed again
};

/// A worker whose candidates run one after the other; several lanes run side by side.
struct WorkerMeasurer::Lane {
  size_t worker = 0;
  size_t place = 0;  ///< index of its set of CPUs
  std::deque<size_t> todo = {};
  size_t candidate = 0;   ///< the candidate that runs
  bool has_base = false;  ///< the static choice is compiled and is timed first
  bool at_base = false;   ///< the static choice runs
  double base_alone = 0;  ///< its time in this lane; 0: not timed
  double base = 0;        ///< its time as candidates are compared with it; 0: not known
  Timer timer = {};       ///< timer of the current run
};

}  // namespace heddle::measuring
