// Runs a network on a GPU, with one CUDA graph for each set of arrays.
#pragma once

#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "heddle/runtime/cuda.h"
#include "heddle/runtime/kernel.h"

namespace heddle::cuda {

/// Calls run one after the other. Their shared buffers are on the GPU, where the next call waits.
class DeviceCalls {
 public:
  /// `run` puts the kernels of the network, called with these arrays, into the current stream.
  using Run = FunctionRef<void(std::span<const NDArray>)>;

  /// Arrays on the CPU are copied to the first GPU. Copies of constants are kept as long as the
  /// same arrays are passed.
  void call(std::span<const KernelArg> args, std::span<const NDArray> arrays, Run run);
  /// Called when the contents of constant arguments have changed.
  void forget();

 private:
  struct Known {
    std::vector<const void*> addresses;
    std::optional<Graph> graph;  ///< from the second call on
  };
  void run_here(std::span<const NDArray> arrays, Run run);
  void run_staged(std::span<const KernelArg> args, std::span<const NDArray> arrays, Run run);
  void launch_or_run(std::span<const NDArray> arrays, Run run);

  std::mutex mutex_;
  std::deque<Known> known_;             ///< most recently used first
  std::vector<NDArray> from_, staged_;  ///< the last arrays of the CPU, and their copies
  std::optional<Event> last_;           ///< the end of the last call, which used the arena
};

}  // namespace heddle::cuda
