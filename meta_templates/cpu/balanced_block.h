// The number of tiles in a block, chosen so that blocks are shared evenly among threads.
#pragma once

#include <algorithm>
#include <limits>

#include "common/elements.h"

namespace heddle::meta::cpu {

/// The number of tiles in a block for `count` tiles, at most `most` tiles in a block and `tasks`
/// threads. It minimises the time of the busiest task, where each block costs a quarter of a tile
/// in addition.
inline int64_t balanced_block(int64_t count, int64_t most, int64_t tasks) {
  most = std::clamp<int64_t>(most, 1, std::max<int64_t>(1, ceil_div(count, tasks)));
  if (tasks == 1) return ceil_div(count, ceil_div(count, most));
  int64_t best = most, least = std::numeric_limits<int64_t>::max();
  for (int64_t block = most; block >= 1; --block) {
    const int64_t turns = ceil_div(ceil_div(count, block), tasks);
    const int64_t time = turns * (4 * block + 1);
    if (time >= least) continue;
    least = time;
    best = block;
  }
  return best;
}

}  // namespace heddle::meta::cpu
