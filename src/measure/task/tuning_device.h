// TuningDevice: the GPU as the runner process of the CUDA measurer sees it. No other process calls
// it. Workers of tests provide a device of their own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/measure/measure.h"
#include "heddle/runtime/kernel.h"
#include "measure/task/reference.h"

namespace heddle::measuring {

/// A candidate on the device.
class DeviceKernel {
 public:
  virtual ~DeviceKernel() = default;
  /// Runs one call on poisoned outputs, which can be read afterwards. Returns its seconds, or
  /// nothing when it did not end within `allowed` seconds; the process must then end. Throws the
  /// errors of the device.
  virtual std::optional<double> first_call(double allowed) = 0;
  /// Runs one more call, with all costs of a launch. Returns its seconds.
  virtual double call() = 0;
  /// `count` samples, each the mean of a call over a graph that takes about `seconds`.
  virtual std::vector<double> samples(int count, double seconds) = 0;
};

class TuningDevice {
 public:
  virtual ~TuningDevice() = default;
  /// Initialises the device at the first call. Kernels that are loaded from now on are called with
  /// these arguments. `inputs` are by argument, undefined for an output.
  virtual void open(const TuneTask& task, const std::vector<NDArray>& inputs, bool cold) = 0;
  /// `steps` are those of the schedule of the code.
  virtual std::unique_ptr<DeviceKernel> load(KernelCode code, const Json& steps) = 0;
  /// The outputs of the last first_call, on the CPU, in the order of the DAG. Of an output that has
  /// positions in `sample` (all have, or it is empty), only these elements are copied.
  virtual std::vector<NDArray> outputs(const Sample& sample) = 0;
  /// Whether the process cannot use this device any more.
  virtual bool lost() = 0;
};

using TuningDeviceFactory = std::function<std::unique_ptr<TuningDevice>()>;

/// The first GPU of this machine.
std::unique_ptr<TuningDevice> make_gpu_device();

/// As make_cuda_measurer, but without the check for a GPU, for workers that provide a device
/// (measure/process/hooks.h).
std::unique_ptr<Measurer> make_cuda_measurer_unchecked(const WorkerOptions& options);

}  // namespace heddle::measuring
