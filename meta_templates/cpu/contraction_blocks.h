// How a contraction is cut into blocks for the second cache and for the threads: by rule.
#pragma once

#include <limits>

#include "cpu/register_tile.h"

namespace heddle::meta {

// The number of tiles a block should have so that `count` tiles in blocks of at most `most` share
// evenly over `tasks`: the busiest one is to be done first, where each block costs a quarter of a
// tile more.
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

struct ContractionBlocks {
  int64_t row_tiles = 1, col_tiles = 1;
  int64_t row = 1, col = 1;  // tiles a block
  int64_t other = 1;         // of the innermost of the other axes of the row operand
  bool share_rows = false;   // among the threads
};

// `panels`: each block copies its panels of the vector operand. Blocks then have all rows, lest a
// panel be copied again, and columns are shared out.
inline ContractionBlocks contraction_blocks(const Target& target, const Operation& op,
                                            const ContractionShape& sh, const Tile& tile,
                                            int64_t lanes, bool threads, bool panels) {
  ContractionBlocks b;
  b.row_tiles = ceil_div(sh.rows, tile.mr);
  b.col_tiles = ceil_div(sh.cols, tile.nv * lanes);
  const int64_t bytes = sh.row ? sh.row->tensor.dtype().bytes() : 4;
  // The block of the broadcast operand may spill over L2: it is read in long streams, and larger
  // blocks read the vector operand less often, the more so where the reduction is cut and results
  // are read again too (docs/benchmarks.md, "blocks of 2048^3").
  const int64_t block_bytes = target.l2_bytes * (sh.depth > 1536 ? 6 : 3) / 2;
  const int64_t in_l2 = std::max<int64_t>(
      1, block_bytes / std::max<int64_t>(1, std::min<int64_t>(sh.depth, 1024) * bytes * tile.mr));
  const int64_t tasks = threads ? target.cores : 1;
  auto extents = [&](const std::vector<int>& axes) {
    int64_t n = 1;
    for (int i : axes) n *= op.axes()[static_cast<size_t>(i)].extent();
    return n;
  };
  const int64_t outer = extents(sh.batch) * extents(sh.v_others), others = extents(sh.m_others);
  // Not cut where there is enough to share out already.
  const int64_t split_over = outer >= 4 * tasks ? 1 : tasks;
  if (!sh.m_others.empty()) {
    // Rows of a convolution's image count as rows of the block.
    const int64_t last = op.axes()[static_cast<size_t>(sh.m_others.back())].extent();
    const int64_t most = std::clamp<int64_t>(in_l2 / b.row_tiles, 1, others);
    b.other = balanced_block(last, most, split_over);
  }
  b.share_rows = !panels && outer * (others > 1 ? others : b.row_tiles) >= tasks * 2;
  if (panels) {
    // Some panels a block: they share the pages and the lines of the operand's rows.
    constexpr int64_t kPanelsABlock = 8;
    b.row = b.row_tiles;
    b.col = split_over == 1 ? b.col_tiles : balanced_block(b.col_tiles, kPanelsABlock, split_over);
    return b;
  }
  b.row =
      others > 1 ? b.row_tiles : balanced_block(b.row_tiles, in_l2, b.share_rows ? split_over : 1);
  // Channels or groups of an image in planes: the next tile of rows is in other planes, so all
  // columns of this one first, in the order of memory.
  const std::vector<int> windows = sh.vector ? sh.vector->window_axes : std::vector<int>();
  if (sh.group < sh.rows && !windows.empty() && !std::count(windows.begin(), windows.end(), sh.m))
    b.row = std::max<int64_t>(1, sh.group / tile.mr);
  b.col = b.share_rows ? b.col_tiles : balanced_block(b.col_tiles, b.col_tiles, split_over);
  return b;
}

}  // namespace heddle::meta
