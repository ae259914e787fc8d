// What the candidates of a task share: its inputs, and room for the right answer.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heddle/dag/declaration.h"
#include "heddle/measure/measure.h"
#include "measure/measure_reference.h"
#include "measure/shared_memory.h"

namespace heddle::measuring {

/// Whether an argument of a task is written.
inline bool is_output(const Tensor& t) { return !t.op()->is_placeholder(); }

/// A task with everything that its candidates share: made by the tuner, and mapped by workers, so
/// that inputs are filled once for all of them.
struct MeasuredTask {
  /// In a worker its template has no knobs: it says of what graph, for what target.
  TuneTask task;
  std::vector<NDArray> inputs;  ///< by argument; outputs are undefined
  std::unique_ptr<Reference> reference;
  bool no_reference = false;  ///< it could not be computed; results are not checked
  /// What the inputs lie in, by argument; null where an input is this process's own.
  std::vector<std::shared_ptr<const SharedRegion>> regions;
  // In a worker.
  std::map<std::string, Declaration> alternatives;  ///< by name
  Json default_schedule;                            ///< the static choice
  bool own_copies = false;  ///< of the inputs, while they are measured with (WorkerTasks::hold)

  explicit MeasuredTask(TuneTask of) : task(std::move(of)) {}
  int64_t input_bytes() const;
};

/// The tuner's: inputs and reference are in `memory`. Random inputs are taken from `others` where
/// one has them: they are a matter of argument, shape and type, and nobody writes to them.
std::shared_ptr<MeasuredTask> make_measured_task(
    const TuneTask& task, SharedMemory& memory,
    std::span<const std::shared_ptr<MeasuredTask>> others = {});

/// Values of argument `i` where nobody gives any: random ones, within the task's range for it.
NDArray random_input(const TuneTask& task, size_t i);

/// Equal for tasks that share everything that is measured: what tasks are known by.
uint64_t measured_task_key(const TuneTask& task);

}  // namespace heddle::measuring
