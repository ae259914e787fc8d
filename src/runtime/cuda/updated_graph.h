// One CUDA graph for calls of different sizes: what differs from the last call is written into it.
#pragma once

#include <memory>
#include <vector>

#include "runtime/cuda/driver_graph.h"
#include "runtime/cuda/launch_record.h"
#include "support/recent.h"

namespace heddle::cuda {

/// The graphs of calls whose kernels differ in their parameters and their numbers of blocks alone,
/// such as the steps of a decoder, each with a longer past. A call is the launch of one graph, into
/// which the parameters are written that are not those of the call before
/// (cuGraphExecKernelNodeSetParams).
class UpdatedGraphs {
 public:
  /// The most graphs that are kept, those of the most recent calls.
  static constexpr std::size_t kMost = 8;

  /// Runs the launches in the device's current stream. They become a graph when their kernels come a
  /// second time. Where the driver cannot update graphs they are launched one by one.
  void run(DeviceState& device, LaunchRecord record);
  /// Makes ready what `run` needs for these launches, while the graph may still run. Does nothing
  /// where their kernels have not come before.
  void update(DeviceState& device, LaunchRecord record);
  void forget() { known_.clear(); }

 private:
  struct Known {
    LaunchRecord record;                 ///< whose values the graph has
    std::unique_ptr<DriverGraph> graph;  ///< null: the kernels came once
    bool updatable = true;               ///< the driver takes other parameters for its launches
  };
  Known* find(const LaunchRecord& record);
  static bool hold(DeviceState& device, Known& known, LaunchRecord& record);

  Recent<Known> known_{kMost};
};

}  // namespace heddle::cuda
