// The code that runs inside a worker process. It compiles candidates and keeps their kernels. Its
// runner, a process forked from it, times them.
#pragma once

#include "heddle/measure/measure.h"
#include "measure/process/hooks.h"
#include "measure/process/process.h"
#include "measure/process/task.h"

namespace heddle::measuring {

/// The schedule that computes a reference, in decreasing order of trust.
enum class ReferenceBy : uint8_t { Naive, Vector, Default };

/// Serves requests until the channel ends: those of every worker (worker_protocol.h), and
///
///   {do: compile, task, slot, candidate, steps}  ->  {seconds} or {error, message}
///     with `code`, which is loaded in place of compiling the steps; or with `for_elsewhere` in
///     place of a slot                           ->  {seconds, code} or {error, message}
///   {do: run, slot, candidate, best}             ->  {samples, cut_off, prepare, run, check} or
///                                                    {error, message}
///   {do: reference, task, by}                    ->  {seconds} or {error, message}
///   {do: race, seconds, slots, candidates}       ->  {checked, error?, message?} for each,
///                                                    {round: [seconds...]} for each, {done};
///                                                    a wrong answer ends it, and the runner
///   {do: rest}                                       ends the runner; no answer
///   {do: forget}                                     drops all kernels; no answer
///
/// Candidate -1 is the static choice, which is timed beside others. Its results are not checked
/// again. A request with an unknown task or slot, or one that is invalid, throws an Error. The
/// runner answers all requests except compile, rest and forget. When it dies of one, the worker
/// answers {died: status, phase, candidate}. All answers to a request have its "id".
void serve_worker(Channel& channel, WorkerStatus& status, WorkerTasks& tasks,
                  const MeasureProtocol& protocol, const WorkerHooks& hooks);

}  // namespace heddle::measuring
