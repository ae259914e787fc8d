// What runs inside the processes of the CUDA measurer: all but one compile, one is the runner, the
// only one that ever touches the device. Which one a process is shows in what it is asked.
#pragma once

#include "measure/worker_hooks.h"
#include "measure/worker_process.h"
#include "measure/worker_task.h"

namespace heddle::measuring {

/// Serves requests until the channel ends: those that every worker takes (worker_protocol.h); of
/// the compilers
///
///   {do: compile, task, candidate, steps, no_spills}  ->  {seconds, nvrtc, code}
///   {do: compile_naive, task}                         ->  {seconds, nvrtc, code}
///   {do: reference, task}                             ->  {}      computed on the CPU
///
/// and of the runner, to all of which `lost` may be added, after which it has ended:
///
///   {do: open, task}                                  ->  {}
///   {do: run_reference, task, code}                   ->  {}
///   {do: run, task, candidate, steps, code, best}     ->  {samples, cut_off, run, check}
///   {do: race, task, racers: [{candidate, steps, code}], seconds, seed}
///                       ->  {checked, error?, message?} for each,
///                           {round: [[candidate, seconds]...]} for each, {done}
///
/// In place of any answer: {error, message}.
void serve_cuda(Channel& channel, WorkerStatus& status, WorkerTasks& tasks,
                const MeasureProtocol& protocol, const WorkerHooks& hooks);

}  // namespace heddle::measuring
