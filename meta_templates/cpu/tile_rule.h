// The rule for products in tile registers: how many tiles at a time, which blocks, what is copied.
#pragma once

#include "cpu/tile_plan.h"
#include "heddle/schedule/choice.h"

namespace heddle::meta::cpu {

struct TileProblem {
  Target target;
  bool parallel = false;                  ///< there is enough work for the threads
  int64_t rows = 1, cols = 1, depth = 1;  ///< of the product, in elements
  int64_t rows_of_tile = kTileRows;
  int64_t outer = 1;             ///< of the axes that are neither rows nor columns
  bool has_other_rows = false;   ///< more axes of rows (an image)
  int64_t other_rows = 1;        ///< along all of those
  int64_t last_other_rows = 1;   ///< along the innermost
  bool padded = false;           ///< tiles are filled up with zeros
  bool copies_rows = false;      ///< the row operand cannot be read where it lies
  bool vector_constant = false;  ///< weights, packed once
  int64_t row_element_bytes = 1;
  int64_t row_batch_bytes = 0;  ///< of the row operand, of one batch

  /// Where a row of an image is one tile, its neighbours are rows of the tile below.
  bool stacks() const { return has_other_rows && row_tiles() == 1; }
  int64_t row_tiles() const { return ceil_div(rows, rows_of_tile); }
  int64_t col_tiles() const { return ceil_div(cols, kTileLanes); }
  /// Rows of the knob "tile_rows" a tile: of an image where tiles are stacked.
  int64_t unit_rows() const { return stacks() ? 1 : rows_of_tile; }
  NamedFeatures features() const;
};

/// What is done with the operand whose rows are columns of the product (knob "pack_vectors").
enum TilePacking : int64_t {
  kPackedWhole = 1,   ///< copied before all else
  kPackedPanels = 2,  ///< each panel when a block comes to it
};

/// Of `count` tiles along an axis those numbers that a product may keep in registers: any where the
/// axis is padded.
std::vector<int64_t> kept_tiles(const TileProblem& p, int64_t count);

/// Tiles of rows that there are to share out, where `tile_rows` go into one product.
int64_t row_products(const TileProblem& p, int64_t tile_rows);
/// The same of the innermost of the other axes of rows.
int64_t other_products(const TileProblem& p, int64_t tile_rows);

/// A default for every knob.
Choice tile_rule(const TileProblem& p);

}  // namespace heddle::meta::cpu
