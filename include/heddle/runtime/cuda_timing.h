// How long a kernel takes on a GPU.
//
//   cuda::Timing t = cuda::time_kernel(kernel, {{a, b, c}});
//   if (t.ok()) std::cout << t.measurement.median_s * 1e6 << " us\n";
//
// A CUDA graph of many launches is timed by events, so that the cost of launching is out, each
// launch on the next set of arguments. The graph is long enough that the host keeps ahead of the
// GPU.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "heddle/runtime/kernel.h"
#include "heddle/runtime/timer.h"

namespace heddle::cuda {

struct TimingOptions {
  /// Launches find nothing of their arguments in L2: sets are added until they are, together, twice
  /// as large as it. Otherwise just the given sets are rotated, one of them by default: warm.
  bool cold_l2 = true;
  int samples = 20;           // graphs that are timed
  double graph_s = 300e-6;    // a graph lasts about as long as this,
  int launches = 0;           // unless this many launches are asked for
  int most_sets = 1024;       // of arguments
  double most_memory = 0.25;  // share of the device's memory that sets may take
  /// Nothing is waited for longer than this: what takes longer is given up.
  double deadline_s = 10;
  /// The samples end early when they have taken this long.
  double budget_s = 1;
};

struct Timing {
  enum class Status : std::uint8_t {
    Ok,
    Deadline,  ///< did not end in time. The context counts as lost (context_lost): end the process
    Failed,    ///< see message; context_lost() says whether the process can go on
  };
  Status status = Status::Ok;
  std::string message;
  Measurement measurement;  // of one launch; a sample is the mean over a graph
  int launches = 0;         // of a graph
  int sets = 0;
  std::int64_t set_bytes = 0;
  bool cold = false;  // did the sets reach twice the L2?

  bool ok() const { return status == Status::Ok; }
};

/// Copies of the arguments, the given ones first, until all are together at least `bytes` large or
/// `most` in number. An array that is an argument twice is so in each copy.
std::vector<std::vector<NDArray>> rotated_arguments(std::span<const NDArray> arguments,
                                                    std::int64_t bytes, int most);

/// `sets` are arguments of calls, all on one GPU; at least one. What depends on constant arguments
/// is prepared before, for each set. Failures at run time, wrong arguments too, are reported, never
/// thrown; a kernel of the CPU or arrays that are not on a GPU are User errors.
Timing time_kernel(const Kernel& kernel, std::span<const std::vector<NDArray>> sets,
                   const TimingOptions& options = {});
inline Timing time_kernel(const Kernel& kernel, std::vector<NDArray> arguments,
                          const TimingOptions& options = {}) {
  return time_kernel(kernel, std::span(&arguments, 1), options);
}

}  // namespace heddle::cuda
