// The code that runs inside the processes of the CUDA measurer. All but one compile. The runner is
// the only process that uses the device. The requests that a process receives determine its role.
#pragma once

#include "measure/process/hooks.h"
#include "measure/process/process.h"
#include "measure/process/task.h"

namespace heddle::measuring {

/// Serves requests until the channel ends: those of every worker (worker_protocol.h), those of the
/// compilers
///
///   {do: compile, task, candidate, steps, no_spills}  ->  {seconds, nvrtc, code}
///   {do: compile_naive, task}                         ->  {seconds, nvrtc, code}
///   {do: reference, task}                             ->  {}      computed on the CPU
///
/// and those of the runner. Its answers may have `lost`, after which the process ends:
///
///   {do: open, task}                                  ->  {}
///   {do: run_reference, task, code}                   ->  {}
///   {do: run, task, candidate, steps, code, best}     ->  {samples, cut_off, run, check}
///   {do: race, task, racers: [{candidate, steps, code}], seconds, seed}
///                       ->  {checked, error?, message?} for each,
///                           {round: [[candidate, seconds]...]} for each, {done}
///
/// A request of the runner may have `turns`: the file that it locks while it uses the device. The
/// time that it waits for the lock does not count.
///
/// Any answer may be replaced by {error, message}.
void serve_cuda(Channel& channel, WorkerStatus& status, WorkerTasks& tasks,
                const MeasureProtocol& protocol, const WorkerHooks& hooks);

}  // namespace heddle::measuring
