// The rule for products in tile registers. It chooses the number of tiles at a time, the blocks,
// and the operands to be copied.
#pragma once

#include "cpu/products/tile_plan.h"
#include "heddle/schedule/choice.h"
#include "heddle/target/rule_constants.h"

namespace heddle::meta::cpu {

struct TileProblem {
  Target target;
  CpuConstants constants = {};            ///< by which the rule judges
  bool parallel = false;                  ///< there is enough work for the threads
  int64_t rows = 1, cols = 1, depth = 1;  ///< extents of the product, in elements
  int64_t rows_of_tile = amx::kRows;
  int64_t outer = 1;             ///< of the axes that are neither rows nor columns
  bool has_other_rows = false;   ///< more axes of rows (an image)
  int64_t other_rows = 1;        ///< product of the extents of those axes
  int64_t last_other_rows = 1;   ///< extent of the innermost of them
  bool padded = false;           ///< whether tiles are filled up with zeros
  bool copies_rows = false;      ///< whether the row operand cannot be read in place
  bool vector_constant = false;  ///< whether the vector operand is weights, which are packed once
  int64_t row_element_bytes = 1;
  int64_t row_batch_bytes = 0;  ///< bytes of one batch of the row operand

  /// Whether tiles are stacked: where a row of an image is one tile, its neighbour is a row of the
  /// tile below.
  bool stacks() const { return has_other_rows && row_tiles() == 1; }
  int64_t row_tiles() const { return ceil_div(rows, rows_of_tile); }
  int64_t col_tiles() const { return ceil_div(cols, amx::kLanes); }
  /// The number of rows that one unit of the knob "tile_rows" stands for: rows of a tile, or 1 for
  /// an image whose tiles are stacked.
  int64_t unit_rows() const { return stacks() ? 1 : rows_of_tile; }
  NamedFeatures features() const;
};

/// The treatment of the operand whose rows are columns of the product (knob "pack_vectors").
enum TilePacking : int64_t {
  kPackedWhole = 1,   ///< copied before the product
  kPackedPanels = 2,  ///< each panel is copied when a block needs it
};

/// The numbers of tiles, out of `count` along an axis, that a product may keep in registers. Where
/// the axis is padded, any number is possible.
std::vector<int64_t> kept_tiles(const TileProblem& p, int64_t count);

/// The number of products along the rows, where `tile_rows` tiles go into one product.
int64_t row_products(const TileProblem& p, int64_t tile_rows);
/// The same for the innermost of the other axes of rows.
int64_t other_products(const TileProblem& p, int64_t tile_rows);

/// A default for every knob. Blocks suit the tiles and the packing that `given` has, if any.
Choice tile_rule(const TileProblem& p, const Choice& given);

}  // namespace heddle::meta::cpu
