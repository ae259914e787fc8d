// How the register tiles of a product are shared out among threads: in blocks of rows, of columns,
// or of both.
#pragma once

#include <cstdint>

#include "heddle/target/rule_constants.h"

namespace heddle::meta::cpu {

struct TileGrid {
  int64_t row_tiles = 1, col_tiles = 1;
  int64_t outer = 1;      ///< independent products
  int64_t tile_rows = 1;  ///< of one tile
  bool panels = false;    ///< a block copies the columns that it reads
};

/// A block of tiles. The threads take blocks of one size, in order.
struct TileBlock {
  int64_t rows = 1, cols = 1;
};

/// The block with which the busiest of `tasks` threads is done first. A thread multiplies its
/// tiles, and it reads its rows and columns from beyond its L2, where another thread wrote them:
/// few columns are therefore shared by rows, and many by columns.
TileBlock shared_block(const TileGrid& grid, int64_t tasks, const CpuConstants& by);

}  // namespace heddle::meta::cpu
