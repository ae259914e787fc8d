// Products of matrices by warp groups (wgmma) from tiles that TMA loads, on Hopper: for 16-bit
// floats, tf32 and bytes.
#pragma once

#include <vector>

#include "cuda/tensor_core_shape.h"

namespace heddle::meta {

/// The knobs of the recipe.
struct WarpGroupKnobs {
  Param group_tiles, groups, group_cols, group_stages, raster;
};

/// The tile of a block: `tiles` times 64 rows for each of `groups` warp groups, and `cols` columns.
/// Blocks go through `raster` rows of tiles before they continue with the next columns.
struct WarpGroupTile {
  int64_t tiles = 1, groups = 1, cols = 64, stages = 2, raster = 1;
  int64_t rows() const { return 64 * tiles * groups; }
};

/// Elements in a row of a box (128 bytes) for operands of which `pack` fill 32 bits.
inline constexpr int64_t group_box_row(int64_t pack) { return 32 * pack; }

/// Whether wgmma and TMA can compute the product in place: two plain operands whose rows in memory
/// are multiples of 16 bytes, over a depth of several tiles. Operands other than 16-bit floats must
/// be contiguous along the depth, because wgmma has no other form for them. Operands must be in
/// memory: TMA cannot load a value that is computed where it is read, such as a conversion.
bool takes_warp_groups(const ComputeDag& dag, const StageGroup& g, const TensorCoreShape& shape,
                       const Gpu& gpu);

/// Cycles of the whole product with tile `t`.
double warp_group_cycles(const TensorCoreProblem& p, const WarpGroupTile& t);

/// Adds unit (warp groups or mma.sync) and the defaults of the knobs above to a choice of
/// tensor_core_rule. `mma_cycles` is the estimate for mma.sync.
void add_warp_group_choice(const TensorCoreProblem& p, double mma_cycles, Choice* choice);

/// Asks for the knobs, and rejects configs that do not fit a block.
WarpGroupKnobs ask_warp_group(TemplateBuilder& t, const TensorCoreProblem& p, Param unit,
                              const Choice& choice);

/// Writes the loops.
void warp_group_product(TemplateBuilder& t, const StageGroup& g, const TensorCoreShape& shape,
                        const WarpGroupKnobs& knobs);

}  // namespace heddle::meta
