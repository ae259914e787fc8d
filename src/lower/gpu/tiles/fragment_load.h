// Loads from a tile in shared memory into the registers of a fragment.
#pragma once

#include "lower/gpu/tiles/tile_nest.h"

namespace heddle::gpu {

/// The registers in which a lane keeps a fragment, without the dimensions of the lane.
struct FragmentPlace {
  Buffer registers;
  std::vector<Expr> indices;  ///< indices of the first element
  size_t tile_dim = 0;        ///< the dimension that counts B's tiles of 8 columns
};

/// The part of lane `lane` in `t`, a Load. `source` is t.value in terms of lowered buffers. f32 is
/// rounded to tf32 in the same step.
Stmt load_fragment(const TileNest& t, const Expr& source, const FragmentPlace& to,
                   const Expr& lane);

using instructions::flat_index;

}  // namespace heddle::gpu
