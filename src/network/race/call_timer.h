// How the calls of a network are timed when it races: all that differs between CPUs and GPUs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "heddle/runtime/kernel.h"
#include "heddle/target/target.h"
#include "network/run/output_difference.h"
#include "runtime/kernel/kernel_impl.h"

namespace heddle::network {

/// A part of a call: one kernel with the arguments of a step.
struct StepCall {
  size_t step = 0;
  const Kernel* kernel = nullptr;
  bool operator==(const StepCall&) const = default;
};

/// The times of one call of the network, in seconds.
struct CallTimes {
  std::vector<double> steps;  ///< of each part; empty where parts have no time of their own
  double total = 0;
};

class CallTimer {
 public:
  using Args = std::vector<StepArgs>;  ///< by step

  virtual ~CallTimer() = default;
  /// Runs these parts as a call of the network, with the caches as repeated calls of the same leave
  /// them. Kernels are told apart by their addresses, which must stay valid. What calls update is
  /// restored before, so that all calls compute with about the same values.
  virtual CallTimes time(std::span<const StepCall> call) = 0;
};

/// Runs these parts once.
void run_once(std::span<const StepCall> call, const CallTimer::Args& args);

/// On a CPU the parts run one after the other, and each is timed. On a GPU a call is the
/// launch of one CUDA graph, in which kernels overlap, so that only the whole is timed. It throws a
/// Runtime error when the GPU does not finish. `args` are those of a call that was checked
/// (Program::StepCalls), on device_of(target), `states` what it updates; both outlive the timer.
std::unique_ptr<CallTimer> make_call_timer(const Target& target, const CallTimer::Args& args,
                                           const StateCopies& states);

/// For make_call_timer, with the first GPU.
std::unique_ptr<CallTimer> make_graph_timer(const CallTimer::Args& args, const StateCopies& states);

/// Where the arrays of a network for this target are.
Device device_of(const Target& target);
/// The memory there that is not in use, in bytes. On a GPU, what this process could use.
int64_t free_bytes(const Target& target);
/// The threads of this process while kernels for the target are compiled and timed.
int race_threads(const Target& target);

}  // namespace heddle::network
