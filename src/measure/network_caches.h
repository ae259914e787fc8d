// Leaves the caches as a network leaves them for a call of one of its tasks: the weights of the
// task were last read a whole call ago, and its inputs were written just now.
#pragma once

#include <cstdint>
#include <span>

#include "heddle/runtime/ndarray.h"
#include "heddle/target/target.h"

namespace heddle::measuring {

/// Where the weights of a task are when its turn comes.
enum class WeightsIn : uint8_t {
  NearCaches,  ///< the network is so small that they stay in the caches of a core
  LastCache,   ///< in the cache that the cores share
  Memory,
};
/// `network_bytes`: of all weights that a call of the network reads.
WeightsIn weights_in(int64_t network_bytes, const Target& machine);

class NetworkCaches {
 public:
  NetworkCaches(int64_t network_bytes, const Target& machine);
  /// Whether there is anything to do before a call.
  bool active() const { return where_ != WeightsIn::NearCaches; }
  /// `weights`: what the call reads and no other node of the network does. `inputs`: what was
  /// written by the nodes before it.
  void before_call(std::span<const NDArray> weights, std::span<const NDArray> inputs);

 private:
  WeightsIn where_;
  NDArray elsewhere_;  ///< what is read in between, larger than the near caches
};

}  // namespace heddle::measuring
