// Products of matrices by warp groups (wgmma) from tiles that TMA loads, on Hopper: for 16-bit
// floats, tf32 and bytes.
#pragma once

#include <vector>

#include "cuda/products/tensor_core_shape.h"

namespace heddle::meta {

/// The knobs of the recipe.
struct WarpGroupKnobs {
  Param group_tiles, groups, group_cols, group_stages, raster, pairs;
  Param store = 0;      ///< how results leave: WarpGroupTile::store
  Param waves = 0;      ///< 1: blocks share the tiles of the last round (stream-K)
  Param turns = 0;      ///< 1: two warp groups take turns at whole tiles (ping-pong)
  Param exchanged = 0;  ///< 1: the tiles are those of the transposed product
  int64_t box_row = 0;  ///< elements of a row of a box of them; 0: TMA cannot store them
  /// Elements of 16 bytes of results.
  int64_t piece() const { return box_row / 8; }
};

/// The tile of a block: `tiles` times 64 rows for each of `groups` warp groups, and `cols` columns.
/// Blocks go through `raster` rows of tiles before they continue with the next columns. With `pair`
/// 2, two neighbouring blocks with the same columns load these columns together. With `store` 1 the
/// results go through shared memory, and TMA stores them while the next tile is computed; with 2
/// the 64-row tiles of a warp group go there one after the other, so that they need less of it; with 3
/// lanes store them from there, 16 bytes each, which tiles of any width may do, one 64-row tile after the other.
/// With `stream` 1 blocks share the tiles of the last round (target/last_round.h). With `turns` 1
/// there are two warp groups, of which each computes every other tile of the block. With `exchanged` 1 the
/// tile is that of the transposed product, whose rows are the columns.
struct WarpGroupTile {
  int64_t tiles = 1, groups = 1, cols = 64, stages = 2, raster = 1, pair = 1, store = 0;
  int64_t stream = 0, turns = 0, exchanged = 0;
  int64_t rows() const { return 64 * tiles * groups; }
};

/// Elements in a row of a box (128 bytes) for operands of which `pack` fill 32 bits.
inline constexpr int64_t group_box_row(int64_t pack) { return 32 * pack; }

/// Whether stage `s` is one of `g` that may be computed before the product, in a kernel of its own.
bool may_be_at_root(const StageGroup& g, int s);

/// Whether wgmma and TMA can compute the product in place: a convolution of an image whose channels
/// are innermost (window_shape.h), or two plain operands whose rows in memory
/// are multiples of 16 bytes, of more than 16 rows and over a depth of several tiles. Operands
/// other than 16-bit floats must be contiguous along the depth, because wgmma has no other form for
/// them. Operands must be in memory: TMA cannot load a value that is computed where it is read,
/// such as a conversion.
bool takes_warp_groups(const ComputeDag& dag, const StageGroup& g, const TensorCoreShape& shape,
                       const Gpu& gpu);

/// Cycles of the whole product with tile `t`, whose rows are those of `p`.
double warp_group_cycles(const TensorCoreProblem& p, const WarpGroupTile& t);

/// The facts about a product that may go to warp groups or to mma.sync.
struct WarpGroupProblem {
  const TensorCoreProblem& product;
  double mma_cycles = 0;  ///< the estimate for mma.sync with the tile that was chosen for it
  const TensorCoreProblem* exchanged =
      nullptr;  ///< the transposed product, where it may be computed

  const TensorCoreProblem& of(const WarpGroupTile& t) const {
    return t.exchanged ? *exchanged : product;
  }

  NamedFeatures features() const;
};

/// The defaults of unit (warp groups or mma.sync) and of the knobs above. Where `given` chooses a
/// part of the tile, the rest goes with it.
Choice warp_group_rule(const WarpGroupProblem& p, const Choice& given = Choice());

/// Asks for the knobs, and rejects configs that do not fit a block.
WarpGroupKnobs ask_warp_group(TemplateBuilder& t, const WarpGroupProblem& problem, Param unit,
                              const Choice& choice);

/// Writes the loops.
void warp_group_product(TemplateBuilder& t, const StageGroup& g, const TensorCoreShape& shape,
                        const WarpGroupKnobs& knobs);

}  // namespace heddle::meta
