// The candidates of one call of WorkerMeasurer::measure(), and the lanes that they run in.
#pragma once

#include <limits>

#include "heddle/runtime/timer.h"
#include "measure/measure_worker.h"

namespace heddle::measuring {

/// The candidates of one call of measure().
struct WorkerMeasurer::Batch {
  int task = 0;
  std::span<const Schedule> schedules;
  const TuneClock& clock;
  const Done& done;
  double best = 0;
  std::deque<size_t> todo = {};
  std::vector<bool> finished = {};
  std::vector<double> compile_seconds = {};
  std::vector<std::vector<size_t>> compiled = {};  ///< by worker
  std::vector<int> forgiven = {};                  ///< deaths after which a candidate was run again
  std::string remark = {};                         ///< on every result: "not checked: ..."
  bool base_fails = false;                         ///< it is not timed again
};

/// A worker whose candidates run one after the other; several lanes run side by side.
struct WorkerMeasurer::Lane {
  size_t worker = 0;
  size_t place = 0;  ///< which CPUs it has
  std::deque<size_t> todo = {};
  size_t candidate = 0;   ///< that runs
  bool has_base = false;  ///< the static choice is compiled, and to be timed first
  bool at_base = false;   ///< the static choice runs
  double base_alone = 0;  ///< its time in this lane; 0: not timed
  double base = 0;        ///< its time as candidates are compared with it; 0: not known
  Timer timer = {};       ///< of what runs
};

}  // namespace heddle::measuring
