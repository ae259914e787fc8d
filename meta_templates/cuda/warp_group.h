// Products of matrices by warp groups (wgmma) from tiles that TMA loads: Hopper; 16-bit floats,
// tf32 and bytes.
#pragma once

#include <vector>

#include "cuda/tensor_core_shape.h"

namespace heddle::meta {

/// The knobs of the recipe.
struct WarpGroupKnobs {
  Param group_tiles, groups, group_cols, group_stages, raster;
};

/// What a block computes: `tiles` times 64 rows in each of `groups` warp groups, `cols` columns;
/// blocks take tiles down `raster` rows of tiles before they go on to the next columns.
struct WarpGroupTile {
  int64_t tiles = 1, groups = 1, cols = 64, stages = 2, raster = 1;
  int64_t rows() const { return 64 * tiles * groups; }
};

/// Elements of a row of a box (128 bytes), of operands of which `pack` fill 32 bits.
inline constexpr int64_t group_box_row(int64_t pack) { return 32 * pack; }

/// Whether wgmma and TMA take the product as it is: two plain operands whose rows in memory are
/// multiples of 16 bytes, over a depth of several tiles. Operands other than 16-bit floats must lie
/// along the depth: a wgmma of theirs has no other form. Operands must be in memory: what is
/// computed where it is read, such as a conversion, is none that TMA can load.
bool takes_warp_groups(const ComputeDag& dag, const StageGroup& g, const TensorCoreShape& shape,
                       const Gpu& gpu);

/// Cycles of the whole product with tile `t`.
double warp_group_cycles(const TensorCoreProblem& p, const WarpGroupTile& t);

/// Adds unit (whether warp groups or mma.sync multiply) and the defaults of the knobs above to a
/// choice of tensor_core_rule. `mma_cycles` is what that one takes.
void add_warp_group_choice(const TensorCoreProblem& p, double mma_cycles, Choice* choice);

/// Asks for the knobs, and rejects what does not fit a block.
WarpGroupKnobs ask_warp_group(TemplateBuilder& t, const TensorCoreProblem& p, Param unit,
                              const Choice& choice);

/// The loops.
void warp_group_product(TemplateBuilder& t, const StageGroup& g, const TensorCoreShape& shape,
                        const WarpGroupKnobs& knobs);

}  // namespace heddle::meta
