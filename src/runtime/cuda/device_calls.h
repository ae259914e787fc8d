// Runs kernels or a network on a GPU: with arrays of the CPU, with one CUDA graph for each set of arrays
// and their shapes that comes again, and with one graph for sizes that come once.
#pragma once

#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "heddle/runtime/cuda.h"
#include "heddle/runtime/kernel.h"
#include "runtime/cuda/updated_graph.h"
#include "support/recent.h"

namespace heddle::cuda {

/// Calls run one after the other. Their shared buffers are on the GPU, where the next call waits.
/// A call in a stream that the caller captures only adds its kernels to the caller's graph: whoever
/// launches that graph orders it with all other calls.
class DeviceCalls {
 public:
  /// `run` puts the kernels of the network, called with these arrays, into the current stream.
  using Run = FunctionRef<void(std::span<const NDArray>)>;
  static constexpr size_t kGraphs = 4;  ///< kept where all extents are constant
  static constexpr size_t kGraphsOfSizes =
      16;  ///< kept where extents depend on the sizes of a call

  /// `graphs`: how many graphs are kept, those of the most recent calls. 0: calls are no graphs.
  /// `updated`: the positions of inputs that calls update, and of outputs that they write in part. Both are
  /// copied there and back.
  explicit DeviceCalls(size_t graphs = kGraphs, std::vector<size_t> updated = {})
      : most_(graphs), updated_(std::move(updated)), known_(graphs) {}

  /// Arrays on the CPU are copied to the first GPU. Copies of constants are kept as long as the
  /// same arrays are passed.
  /// Without `graphs` this call is no graph and makes none.
  void call(std::span<const KernelArg> args, std::span<const NDArray> arrays, Run run,
            bool graphs = true);
  /// Makes ready what a call with these arrays needs that is likely to be the next, while the GPU works
  /// on those before: in the same stream it is the launch of a graph then. Any other call may come.
  /// Does nothing for arrays on the CPU, without graphs, and in a capture.
  void expect(std::span<const KernelArg> args, std::span<const NDArray> arrays, Run run);
  /// Called when the contents of constant arguments have changed.
  void forget();

 private:
  struct Known {
    std::vector<int64_t> key;    ///< addresses of the arrays, and extents that may change
    std::optional<Graph> graph;  ///< from the second call on
  };
  /// A call that was announced. Workspaces are those of the stream.
  struct Expected {
    api::StreamHandle stream = nullptr;
    std::vector<int64_t> key;
    LaunchRecord record;
  };
  using Args = std::span<const KernelArg>;
  void run_here(Args args, std::span<const NDArray> arrays, Run run);
  void run_staged(Args args, std::span<const NDArray> arrays, Run run);
  void launch_or_run(Args args, std::span<const NDArray> arrays, Run run);
  LaunchRecord launches_of(const std::vector<int64_t>& key, std::span<const NDArray> arrays,
                           Run run);
  void stage(Args args, std::span<const NDArray> arrays, Device device);

  const size_t most_;
  bool graphs_ = true;  ///< of the call that runs
  const std::vector<size_t> updated_;
  std::mutex mutex_;
  Recent<Known> known_;
  UpdatedGraphs updated_graphs_;  ///< of calls whose arrays or sizes have not come before
  std::optional<Expected> expected_;
  std::vector<NDArray> room_;       ///< memory of the GPU for each argument
  std::vector<NDArray> staged_;     ///< the last arrays of the CPU, in `room_`
  std::vector<NDArray> constants_;  ///< the constants among them, on the CPU
  std::optional<Event> last_;       ///< the end of the last call, which used the arena
};

}  // namespace heddle::cuda
