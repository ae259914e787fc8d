// A network whose nodes are timed in calls of the whole, to compare it with another way to compute
// the same.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "network/race/call_timer.h"
#include "network/run/network_kernel_impl.h"
#include "network/run/output_difference.h"

namespace heddle::network {

/// The kernels of a network.
class TimedNetwork {
 public:
  /// Compiles the kernels and calls them once, so that weights are prepared. `args` and `arrays`
  /// are the arguments of the network, inputs before outputs, on device_of(target); several
  /// networks may share the arrays: calls update copies of those that they update.
  TimedNetwork(const Network& network, const std::vector<Schedule>& schedules,
               const std::vector<Tensor>& args, const std::vector<NDArray>& arrays);
  ~TimedNetwork();

  const Network& network() const { return network_; }
  /// Times a call. Its steps are the nodes, unless nodes of a GPU share launches.
  CallTimes call();
  /// The seconds of each node in calls of the whole: medians of calls for about `seconds`.
  std::vector<double> node_seconds(double seconds);
  /// Makes one call and returns copies on the CPU of the outputs and of what it updated. States begin as
  /// the shared arrays have them now.
  std::vector<NDArray> outputs();
  /// The arguments that calls update.
  const std::vector<size_t>& updated() const { return kernel_.updated(); }
  /// As node_hashes. Equal nodes of two networks have equal hashes.
  const std::vector<uint64_t>& hashes() const { return hashes_; }

 private:
  std::vector<double> step_seconds(double seconds);

  const Network network_;
  NetworkKernel kernel_;
  std::vector<NDArray> given_;  ///< that other networks share
  std::vector<NDArray> arrays_, results_;
  StateCopies states_;
  std::unique_ptr<Program::StepCalls> of_steps_;
  std::vector<uint64_t> hashes_;
  std::vector<StepCall> steps_;
  std::unique_ptr<CallTimer> timer_;
};

/// The hash of the task of each node.
std::vector<uint64_t> node_hashes(const Network& network);

/// For each node whether it occurs another number of times in another network.
std::vector<char> nodes_that_differ(const std::vector<uint64_t>& hashes,
                                    const std::vector<uint64_t>& others);

}  // namespace heddle::network
