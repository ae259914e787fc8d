// Where the buffers of a kernel go: registers of threads, fragments of warps, or shared memory.
#pragma once

#include <map>
#include <vector>

#include "lower/gpu/gpu_passes.h"
#include "lower/gpu/threads/buffer_uses.h"
#include "lower/gpu/threads/thread_digits.h"

namespace heddle::gpu {

/// Where a buffer goes, and what its indices become.
struct Decision {
  Buffer buffer;
  /// Loops over threads whose variables lead the index, because each of their threads has a part of
  /// the memory of the block.
  std::vector<OpenLoop> around;
  /// Digits of the threads that are removed from the index.
  ThreadDigits digits;
  /// Of a fragment: the first of the `lane_dims` dimensions that are the lane and are removed.
  int lane_dim = -1;
  int lane_dims = 2;

  bool is_lane(size_t dim) const {
    const int d = static_cast<int>(dim);
    return lane_dim >= 0 && d >= lane_dim && d < lane_dim + lane_dims;
  }
};

using Decisions = std::map<const BufferNode*, Decision>;

/// The decisions for all buffers that change their place.
Decisions decide(const BufferUses& uses, const Fragments& fragments, const LaunchShape& shape);

}  // namespace heddle::gpu
