// What runs inside a worker process: compiles candidates and keeps their kernels; its runner, a
// process forked from it, times them.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "heddle/search/measure.h"
#include "search/measure_reference.h"
#include "search/worker_process.h"

namespace heddle::search {

/// A task with everything that its candidates share. Made by the tuner; workers inherit it when
/// they are forked, pages and all, so that inputs are filled once for all of them.
struct MeasuredTask {
  TuneTask task;
  std::vector<NDArray> inputs;  ///< by argument; outputs are undefined
  std::unique_ptr<Reference> reference;
  bool no_reference = false;  ///< it could not be computed; results are not checked

  /// Random inputs are taken from `others` where one has them: they are a matter of argument, shape
  /// and type, and nobody writes to them but a candidate that errs, in a process of its own.
  explicit MeasuredTask(const TuneTask& task,
                        std::span<const std::shared_ptr<MeasuredTask>> others = {});
};

/// Equal for tasks that share everything that is measured: what tasks are known by.
uint64_t measured_task_key(const TuneTask& task);

/// What computes a reference, in the order of trust.
enum class ReferenceBy : uint8_t { Naive, Vector, Default };

/// Serves requests until the channel ends.
///
///   {do: compile, task, slot, candidate, steps}  ->  {seconds} or {error, message}
///   {do: run, slot, candidate, best}             ->  {samples, cut_off, prepare, run, check} or
///                                                    {error, message}
///   {do: reference, task, by}                    ->  {seconds} or {error, message}
///   {do: race, seconds, slots, candidates}       ->  {checked, error?, message?} for each,
///                                                    {round: [seconds...]} for each, {done};
///                                                    a wrong answer ends it, and the runner
///   {do: rest}                                       ends the runner; no answer
///   {do: forget}                                     drops all kernels; no answer
///
/// All but compile, rest and forget are answered by the runner, or, when it dies of them, by the
/// worker with {died: status}. A request's "id" is in everything that answers it.
void serve_worker(Channel& channel, WorkerStatus& status,
                  const std::vector<std::shared_ptr<MeasuredTask>>& tasks,
                  const WorkerOptions& options);

}  // namespace heddle::search
