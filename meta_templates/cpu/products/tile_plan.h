// The products that the tile registers of a CPU (AMX) compute, and their layout in tiles.
#pragma once

#include <optional>

#include "common/contraction_shape.h"
#include "cpu/products/narrow_product.h"
#include "heddle/instruction/tiles.h"

namespace heddle::meta::cpu {

struct TilePlan {
  ContractionShape shape;
  GroupedReduction k;
  int64_t group_size = 1;         ///< number of elements of a group
  int64_t rows = amx::kRows;      ///< rows of a tile
  int64_t groups = amx::kGroups;  ///< groups of k in a tile
  bool padded = false;            ///< whether tiles do not divide the axes
  bool matrix = false;            ///< whether it is a plain product, which can be padded
  bool copies_rows = false;       ///< whether the row operand cannot be read in place
};

/// Whether the target multiplies such products by its tile registers.
bool has_tiles(const Target& target, const NarrowProduct& p);

/// nullopt where the target has no tiles for the product, or where tiles do not fit or do not gain.
std::optional<TilePlan> tile_plan(const ComputeDag& dag, const StageGroup& g, const Target& target);

}  // namespace heddle::meta::cpu
