// The last round of persistent blocks, which has too few tiles for all of them.
#pragma once

#include <algorithm>
#include <cstdint>

namespace heddle {

/// How the tiles of the last round are shared (stream-K, Osama et al. 2023): the reductions of
/// `group_tiles` tiles, one behind the other, are cut into runs of `run` steps, one for each of
/// `group_blocks` blocks. A run may end one tile and begin the next. With one tile for one block
/// nothing is shared.
struct LastRound {
  std::int64_t tiles = 0, depth = 0, group_tiles = 1, group_blocks = 1, run = 0;

  bool shares() const { return group_blocks > 1; }
  /// Blocks that may have work in the last round.
  std::int64_t units() const { return (tiles + group_tiles - 1) / group_tiles * group_blocks; }
  /// The most parts that a tile consists of.
  std::int64_t most_parts() const {
    return group_tiles == 1 ? group_blocks : (depth + run - 2) / run + 1;
  }
};

/// The last round of `tiles` tiles of `depth` steps on `blocks` blocks, with the shortest runs.
/// Blocks that are at the same step load the same rows from the second cache at the same time.
/// Groups therefore have few tiles: runs of all tiles one behind the other would leave each block
/// at a step of its own, and everything would come from memory. Parts have four steps or more:
/// shorter ones do not fill the pipeline. One block adds up all parts of a tile, so that they are
/// few.
inline LastRound last_round(std::int64_t tiles, std::int64_t blocks, std::int64_t depth) {
  constexpr std::int64_t kLeastSteps = 4, kMostParts = 16, kMostBlocks = 5;
  LastRound best{tiles % blocks, depth, 1, 1, depth};
  if (best.tiles == 0) return best;
  for (std::int64_t n = 1; n < kMostBlocks; ++n) {
    const std::int64_t room = blocks / ((best.tiles + n - 1) / n);
    const std::int64_t least = n == 1 ? kLeastSteps : 2 * kLeastSteps;
    const std::int64_t most = std::min({room, depth / least, n == 1 ? kMostParts : kMostBlocks});
    if (most <= n) continue;
    const std::int64_t run = (n * depth + most - 1) / most;
    if (run >= best.run) continue;
    best.group_tiles = n;
    best.group_blocks = (n * depth + run - 1) / run;
    best.run = run;
  }
  return best;
}

}  // namespace heddle
