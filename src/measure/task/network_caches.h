// Puts the caches into the state in which a network leaves them before a call of one of its tasks:
// the weights of the task were last read a whole call ago, and its inputs were written just before.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "heddle/runtime/ndarray.h"
#include "heddle/target/target.h"

namespace heddle::measuring {

/// The place of the weights of a task when it is called, by the sizes of caches.
enum class WeightsIn : uint8_t {
  NearCaches,  ///< the network is so small that they stay in the caches of a core
  LastCache,   ///< in the cache that the cores share
  Memory,
};
/// `network_bytes` is the size of all weights that a call of the network reads.
WeightsIn weights_in(int64_t network_bytes, const Target& machine);

class NetworkCaches {
 public:
  /// `from_memory` is the share of the weights that calls read from the main memory; nullopt: all
  /// or none, by the sizes of caches.
  NetworkCaches(int64_t network_bytes, const Target& machine,
                std::optional<double> from_memory = {});
  /// Whether any action is needed before a call.
  bool active() const { return active_; }
  /// `weights` are read by this call and by no other node of the network. `inputs` were written by
  /// the nodes before it.
  void before_call(std::span<const NDArray> weights, std::span<const NDArray> inputs);

 private:
  bool active_;
  double from_memory_;
  NDArray elsewhere_;  ///< memory that is read in between, larger than the near caches
};

}  // namespace heddle::measuring
