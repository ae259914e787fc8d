// The products that the tile registers of a CPU (AMX) compute, and their layout in tiles.
#pragma once

#include <optional>

#include "common/contraction_shape.h"
#include "cpu/products/narrow_product.h"

namespace heddle::meta::cpu {

// A tile is 16 rows of 64 bytes: 16 groups of four bytes along the reduction, or 16 results.
inline constexpr int64_t kTileRows = 16;
inline constexpr int64_t kTileGroups = 16;
inline constexpr int64_t kGroupBytes = 4;
inline constexpr int64_t kTileLanes = 16;  // f32 or i32
inline constexpr int64_t kTileRegisters = 8;

struct TilePlan {
  ContractionShape shape;
  GroupedReduction k;
  int64_t group_size = 1;        ///< number of elements of a group
  int64_t rows = kTileRows;      ///< rows of a tile
  int64_t groups = kTileGroups;  ///< groups of k in a tile
  bool padded = false;           ///< whether tiles do not divide the axes
  bool matrix = false;           ///< whether it is a plain product, which can be padded
  bool copies_rows = false;      ///< whether the row operand cannot be read in place
};

/// nullopt where the target has no tiles for the product, or where tiles do not fit or do not gain.
std::optional<TilePlan> tile_plan(const ComputeDag& dag, const StageGroup& g, const Target& target);

}  // namespace heddle::meta::cpu
