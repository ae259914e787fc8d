// A graph of the driver: what a stream recorded, in the form that is launched.
#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include "heddle/support/function_ref.h"
#include "runtime/cuda/state.h"

namespace heddle::cuda {

/// Launches may come from several threads. The destructor waits for them.
class DriverGraph {
 public:
  /// Records what `work` puts into the stream that it is given. If `work` throws, nothing remains.
  DriverGraph(DeviceState& device, FunctionRef<void(const Stream&)> work);
  ~DriverGraph();
  DriverGraph(const DriverGraph&) = delete;
  DriverGraph& operator=(const DriverGraph&) = delete;

  void launch(const Stream& stream);
  int device() const { return device_; }
  api::GraphExec exec() const { return exec_; }
  /// Its kernels, copies and fills. They live as long as the graph.
  const std::vector<api::GraphNode>& nodes() const { return nodes_; }

 private:
  int device_;
  api::GraphHandle recorded_ = nullptr;
  api::GraphExec exec_ = nullptr;
  std::vector<api::GraphNode> nodes_;
  std::mutex mutex_;
  std::vector<Stream> launched_on_;  ///< own streams whose last launches must be waited for
  /// The end of the last launch on another stream, which may be gone before the graph. A launch begins
  /// when those before have ended.
  std::optional<Event> last_;
};

}  // namespace heddle::cuda
