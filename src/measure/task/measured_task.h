// The data that the candidates of a task share: its inputs, and memory for the reference results.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dag/declaration/declaration.h"
#include "heddle/measure/measure.h"
#include "measure/task/reference.h"
#include "measure/task/shared_memory.h"

namespace heddle::measuring {

/// Whether an argument of a task is written.
inline bool is_output(const Tensor& t) { return !t.op()->is_placeholder(); }

/// A task with the data that its candidates share. The tuner makes it and workers map it, so that
/// inputs are filled once for all of them.
struct MeasuredTask {
  /// In a worker its template has no knobs and holds only the graph and the target.
  TuneTask task;
  std::vector<NDArray> inputs;  ///< arrays by argument; outputs are undefined
  std::unique_ptr<Reference> reference;
  bool no_reference = false;  ///< the reference could not be computed; results are not checked
  /// The memory of the inputs, by argument; null where an input belongs to this process alone.
  std::vector<std::shared_ptr<const SharedRegion>> regions;
  Json default_schedule;  ///< the steps of the static choice
  // These members are set in a worker.
  std::map<std::string, Declaration> alternatives;  ///< by name
  std::optional<double> from_memory;  ///< share of the network's weights (weights_from_memory)
  bool own_copies = false;  ///< inputs are copied while they are measured with (WorkerTasks::hold)

  explicit MeasuredTask(TuneTask of) : task(std::move(of)) {}
  int64_t input_bytes() const;
};

/// Makes a task in the tuner, with inputs and reference in `memory`. Random inputs are taken from
/// `others` where possible: they depend on argument, shape and type only, and are never written.
std::shared_ptr<MeasuredTask> make_measured_task(
    const TuneTask& task, SharedMemory& memory,
    std::span<const std::shared_ptr<MeasuredTask>> others = {});

/// Values of argument `i` where the caller gives none: random ones, within the task's range for it.
NDArray random_input(const TuneTask& task, size_t i);

/// A key that is equal for tasks that share all data of measurements.
uint64_t measured_task_key(const TuneTask& task);

}  // namespace heddle::measuring
