// How matrix units of a block share rows: warps of 16 rows, or warp groups of 64.
#pragma once

#include <utility>
#include <vector>

#include "cuda/common.h"
#include "heddle/instruction/tiles.h"

namespace heddle::meta {

/// How the rows of a block are cut: `units` warps of `tiles` times 16 rows, or, with `groups`, `units`
/// warp groups of `tiles` times 64 rows.
struct RowCut {
  Param tiles, units;
  bool groups = false;
  /// Rows of a tile of a unit.
  int64_t unit_rows() const { return groups ? int64_t{wgmma::kRows} : mma::kRows; }
};

/// The loops over rows: those over threads, outermost first, tiles of a warp, rows of a tile.
struct RowLoops {
  std::vector<std::pair<Loop, LoopKind>> threads;
  Loop tile, in;

  void append_threads(std::vector<Loop>* to) const {
    for (const auto& [loop, kind] : threads) to->push_back(loop);
  }
  void bind_threads(StageRef s) const {
    for (const auto& [loop, kind] : threads) s.bind(loop, kind);
  }
};

/// The loop `rows` of stage `s` among the threads of blocks that are cut so.
RowLoops cut_rows(StageRef s, Loop rows, const RowCut& cut);

}  // namespace heddle::meta
