// Measures the time of a kernel on a GPU.
//
//   cuda::Timing t = cuda::time_kernel(kernel, {{a, b, c}});
//   if (t.ok()) std::cout << t.measurement.median_s * 1e6 << " us\n";
//
// A CUDA graph of many launches is timed by events, which excludes the cost of launching. Each
// launch uses the next set of arguments. The graph is long enough for the host to stay ahead of
// the GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "heddle/runtime/kernel.h"
#include "heddle/runtime/timer.h"

namespace heddle::cuda {

/// How a kernel is timed on a GPU.
struct TimingOptions {
  /// If true, launches find no argument in L2: copies of the arguments are added until all sets
  /// together are twice as large as L2. If false, only the given sets are rotated, so one set is
  /// warm.
  bool cold_l2 = true;
  int samples = 20;           // number of graphs that are timed
  double graph_s = 300e-6;    // approximate duration of a graph,
  int launches = 0;           // unless this number of launches is set
  int most_sets = 1024;       // largest number of sets of arguments
  double most_memory = 0.25;  // largest share of the device's memory for sets
  /// Seconds. Work that takes longer is abandoned.
  double deadline_s = 10;
  /// Seconds after which no further sample is taken.
  double budget_s = 1;
};

/// The result of timing a kernel on a GPU.
struct Timing {
  enum class Status : std::uint8_t {
    Ok,
    Deadline,  ///< it did not end in time. The context counts as lost (context_lost), so end the
               ///< process
    Failed,    ///< see message; context_lost() tells whether the process can continue
  };
  Status status = Status::Ok;
  std::string message;
  Measurement measurement;  // time of one launch; a sample is the mean over a graph
  int launches = 0;         // of a graph
  int sets = 0;
  std::int64_t set_bytes = 0;
  bool cold = false;  // whether the sets reached twice the size of L2

  bool ok() const { return status == Status::Ok; }
};

/// The given arguments and copies of them, until all sets together have at least `bytes` bytes or
/// there are `most` sets. An array that is an argument twice is one array in each copy too.
std::vector<std::vector<NDArray>> rotated_arguments(std::span<const NDArray> arguments,
                                                    std::int64_t bytes, int most);

/// `sets` are arguments of calls, at least one, all on one GPU. Values that depend on constant
/// arguments are prepared before, for each set. Failures at run time, and wrong arguments, are
/// reported and not thrown. A kernel for the CPU, or arrays that are not on a GPU, are User errors.
Timing time_kernel(const Kernel& kernel, std::span<const std::vector<NDArray>> sets,
                   const TimingOptions& options = {});
inline Timing time_kernel(const Kernel& kernel, std::vector<NDArray> arguments,
                          const TimingOptions& options = {}) {
  return time_kernel(kernel, std::span(&arguments, 1), options);
}
/// The same for the work of another library, which `call` puts into the current stream.
Timing time_calls(const std::string& name,
                  const std::function<void(std::span<const NDArray>)>& call,
                  std::span<const std::vector<NDArray>> sets, const TimingOptions& options = {});

}  // namespace heddle::cuda
