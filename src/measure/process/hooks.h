// Hooks by which a test changes a worker. The test's own program serves as the worker
// (tests/measure/test_worker.cpp, WorkerOptions::command) and calls run_worker with them.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "heddle/runtime/ndarray.h"
#include "measure/process/channel.h"
#include "measure/process/process.h"
#include "measure/task/tuning_device.h"

namespace heddle::measuring {

struct WorkerHooks {
  /// Called with the name of a phase ("start", "compile", "run", "output", "cpu reference") and the
  /// index of the candidate in its batch. It may crash, hang, exhaust memory, or change the output.
  std::function<void(const std::string& phase, size_t candidate, std::span<const NDArray> args)>
      fault = {};
  /// Used in place of the first GPU of this machine.
  TuningDeviceFactory device = make_gpu_device;
  /// Used in place of all servers, once the worker has started.
  std::function<void(Channel&, WorkerStatus&)> serve = {};
};

/// heddle::worker_main with `hooks`.
int run_worker(int argc, const char* const* argv, const WorkerHooks& hooks);

}  // namespace heddle::measuring
