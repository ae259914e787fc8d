// The code that runs inside the processes of the CUDA measurer. All but one compile. The runner is
// the only process that uses the device. The requests that a process receives determine its role.
#pragma once

#include "measure/process/hooks.h"
#include "measure/process/process.h"
#include "measure/process/task.h"

namespace heddle::measuring {

/// Serves the requests of requests.h until the channel ends. An invalid one throws an Error. After an
/// answer that says that the device is lost, the process ends.
void serve_cuda(Channel& channel, WorkerStatus& status, WorkerTasks& tasks,
                const MeasureProtocol& protocol, const WorkerHooks& hooks);

}  // namespace heddle::measuring
