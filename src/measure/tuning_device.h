// TuningDevice: the GPU as the runner process of the CUDA measurer sees it. Nothing of it is called
// in any other process; the workers of tests bring a device of their own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/measure/measure.h"
#include "heddle/runtime/kernel.h"

namespace heddle::measuring {

/// A candidate on the device.
class DeviceKernel {
 public:
  virtual ~DeviceKernel() = default;
  /// One call on outputs that were poisoned before; then they are there to be read. Seconds;
  /// nothing when it did not end within `allowed` seconds: then the process is to be ended. Throws
  /// what went wrong on the device.
  virtual std::optional<double> first_call(double allowed) = 0;
  /// One more, with all costs of a launch.
  virtual double call() = 0;
  /// `count` samples, each the mean of a call over a graph that takes about `seconds`.
  virtual std::vector<double> samples(int count, double seconds) = 0;
};

class TuningDevice {
 public:
  virtual ~TuningDevice() = default;
  /// Initialises the device at the first call. Kernels loaded from now on are called with these
  /// arguments; `inputs` by argument, undefined for an output.
  virtual void open(const TuneTask& task, const std::vector<NDArray>& inputs, bool cold) = 0;
  /// `steps`: of the schedule that the code is of.
  virtual std::unique_ptr<DeviceKernel> load(KernelCode code, const Json& steps) = 0;
  /// Outputs of the last first_call, on the CPU, in the order of the DAG's.
  virtual std::vector<NDArray> outputs() = 0;
  /// The process can do nothing more on this device.
  virtual bool lost() = 0;
};

using TuningDeviceFactory = std::function<std::unique_ptr<TuningDevice>()>;

/// The first GPU of this machine.
std::unique_ptr<TuningDevice> make_gpu_device();

/// As make_cuda_measurer, but nobody is asked whether there is a GPU: for workers that bring one
/// (worker_hooks.h).
std::unique_ptr<Measurer> make_cuda_measurer_unchecked(const WorkerOptions& options);

}  // namespace heddle::measuring
