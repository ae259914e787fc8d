// The last round of persistent blocks, which has too few tiles for all of them.
#pragma once

#include <algorithm>
#include <cstdint>

namespace heddle {

/// How the tiles of the last round are shared: each by `parts` blocks, which take `steps` steps of
/// its reduction each (the last one may take fewer). With one part nothing is shared.
struct LastRound {
  std::int64_t tiles = 0, parts = 1, steps = 0;
  /// Blocks that have work in the last round.
  std::int64_t units() const { return tiles * parts; }
};

/// The last round of `tiles` tiles of `steps` steps on `blocks` blocks. As many parts as there are
/// blocks for, of four steps or more: shorter ones do not fill the pipeline. One block adds up all
/// parts of a tile, so that they are few.
inline LastRound last_round(std::int64_t tiles, std::int64_t blocks, std::int64_t steps) {
  constexpr std::int64_t kLeastSteps = 4, kMostParts = 16;
  LastRound r{tiles % blocks, 1, steps};
  if (r.tiles == 0) return r;
  const std::int64_t most = std::min({blocks / r.tiles, steps / kLeastSteps, kMostParts});
  if (most < 2) return r;
  r.steps = (steps + most - 1) / most;
  r.parts = (steps + r.steps - 1) / r.steps;
  return r;
}

}  // namespace heddle
