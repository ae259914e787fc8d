// The code that runs inside a worker process. It compiles candidates and keeps their kernels. Its
// runner, a process forked from it, times them.
#pragma once

#include "measure/process/hooks.h"
#include "measure/process/process.h"
#include "measure/process/task.h"

namespace heddle::measuring {

/// Serves the requests of requests.h until the channel ends. An invalid one throws an Error. The
/// runner answers all but tasks, Compile, Rest and Forget.
void serve_worker(Channel& channel, WorkerStatus& status, WorkerTasks& tasks,
                  const MeasureProtocol& protocol, const WorkerHooks& hooks);

}  // namespace heddle::measuring
