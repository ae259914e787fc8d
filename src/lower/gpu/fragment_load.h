// From a tile in shared memory to the registers of a fragment.
#pragma once

#include "lower/gpu/tile_nest.h"

namespace heddle::gpu {

/// Where a lane keeps a fragment: its registers, without the dimensions of the lane.
struct FragmentPlace {
  Buffer registers;
  std::vector<Expr> indices;  ///< of the first element
  size_t tile_dim = 0;        ///< the dimension along which B's tiles of 8 columns lie
};

/// What lane `lane` of a warp does of `t`, a Load. `source`: t.value, in terms of the buffers there
/// are. f32 is rounded to tf32 on the way.
Stmt load_fragment(const TileNest& t, const Expr& source, const FragmentPlace& to,
                   const Expr& lane);

/// The index into a buffer that has one.
Expr flat_index(const Buffer& b, const std::vector<Expr>& indices);

}  // namespace heddle::gpu
