#include "cpu/products/shared_tiles.h"

#include <algorithm>
#include <limits>

#include "common/elements.h"

namespace heddle::meta::cpu {
namespace {

// Columns that several threads read come from the caches of others: a 1x1 convolution of 512 channels
// and 28x28 pixels loses 0.86 where both threads read all of an image. Rows come in the order of memory.
double cost_of_busiest(const TileGrid& g, int64_t tasks, const CpuConstants& by,
                       const TileBlock& b) {
  const int64_t blocks = g.outer * ceil_div(g.row_tiles, b.rows) * ceil_div(g.col_tiles, b.cols);
  const auto rows = static_cast<double>(b.rows), cols = static_cast<double>(b.cols);
  const double read =
      (g.panels ? by.copy_columns : by.read_columns) / static_cast<double>(g.tile_rows);
  return static_cast<double>(ceil_div(blocks, tasks)) *
         (rows * cols + cols * read + rows * by.read_rows);
}

}  // namespace

TileBlock shared_block(const TileGrid& g, int64_t tasks, const CpuConstants& by) {
  TileBlock best{g.row_tiles, g.col_tiles};
  double least = std::numeric_limits<double>::max();
  const int64_t most_rows = std::min(g.row_tiles, tasks);
  const int64_t most_cols = std::min(g.col_tiles, 2 * tasks);
  for (int64_t row_parts = 1; row_parts <= most_rows; ++row_parts) {
    for (int64_t col_parts = 1; col_parts <= most_cols; ++col_parts) {
      const TileBlock b{ceil_div(g.row_tiles, row_parts), ceil_div(g.col_tiles, col_parts)};
      const double cost = cost_of_busiest(g, tasks, by, b);
      if (cost >= least) continue;
      least = cost;
      best = b;
    }
  }
  return best;
}

}  // namespace heddle::meta::cpu
