// A network whose nodes are timed in calls of the whole, to compare it with another way to compute
// the same.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "network/network_kernel_impl.h"

namespace heddle::network {

/// The kernels of a network for the CPU, with its static schedules.
class TimedNetwork {
 public:
  struct Times {
    std::vector<double> nodes;  ///< seconds
    double total = 0;
  };

  /// Compiles the kernels and calls them once, so that weights are prepared. `args` and `arrays`
  /// are the arguments of the network, inputs before outputs; several networks may share the
  /// arrays.
  TimedNetwork(const Network& network, const std::vector<Tensor>& args,
               const std::vector<NDArray>& arrays);
  ~TimedNetwork();

  const Network& network() const { return network_; }
  /// Makes one call. A short one is made twice and timed the second time, so that the caches are
  /// those of a network that is called repeatedly.
  Times call();
  /// Makes one call and returns copies of the outputs.
  std::vector<NDArray> outputs();
  /// As node_hashes. Equal nodes of two networks have equal hashes.
  const std::vector<uint64_t>& hashes() const { return hashes_; }

 private:
  const Network network_;
  NetworkKernel kernel_;
  std::vector<NDArray> arrays_;
  std::unique_ptr<NetworkKernel::Impl::Call> frame_;
  std::vector<uint64_t> hashes_;
  double last_seconds_ = 0;
};

/// The hash of the task of each node.
std::vector<uint64_t> node_hashes(const Network& network);

/// For each node whether it occurs another number of times in another network.
std::vector<char> nodes_that_differ(const std::vector<uint64_t>& hashes,
                                    const std::vector<uint64_t>& others);

}  // namespace heddle::network
