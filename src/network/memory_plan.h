// The places of the buffers between the nodes of a network in one arena. Two buffers may share
// memory when they are never needed at the same time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace heddle::network {

struct BufferLifetime {
  int64_t bytes = 0;
  int first = 0, last = 0;  ///< the step that writes it, and the last that reads it
};

struct MemoryPlan {
  std::vector<int64_t> offsets;  ///< in bytes, multiples of kArenaAlignment
  int64_t bytes = 0;             ///< bytes of the arena
};

inline constexpr int64_t kArenaAlignment = 64;  // a cache line; every vector's alignment

/// Best fit, the largest buffer first. Each buffer goes into the smallest gap between the buffers
/// that are already placed and alive at the same time. Where that takes more than what lives at once,
/// the smallest of it and three other orders: the first that are written, those that live longest, and those
/// with most bytes times steps. The arena is never larger than the sum of all, rounded up to the
/// alignment.
MemoryPlan plan_memory(std::span<const BufferLifetime> buffers);

}  // namespace heddle::network
