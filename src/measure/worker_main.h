// What runs inside a worker process: compiles candidates and keeps their kernels; its runner, a
// process forked from it, times them.
#pragma once

#include "heddle/measure/measure.h"
#include "measure/worker_hooks.h"
#include "measure/worker_process.h"
#include "measure/worker_task.h"

namespace heddle::measuring {

/// What computes a reference, in the order of trust.
enum class ReferenceBy : uint8_t { Naive, Vector, Default };

/// Serves requests until the channel ends: those that every worker takes (worker_protocol.h), and
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
/// Candidate -1 is the static choice, timed beside others: its answer is not checked again.
/// What names a task or a slot that there is not, or asks for what cannot be, throws an Error.
/// All but compile, rest and forget are answered by the runner, or, when it dies of them, by the
/// worker with {died: status, phase, candidate}. A request's "id" is in everything that answers it.
void serve_worker(Channel& channel, WorkerStatus& status, WorkerTasks& tasks,
                  const MeasureProtocol& protocol, const WorkerHooks& hooks);

}  // namespace heddle::measuring
