// Loop nests that Hopper runs as one operation: a product by the four warps of a warp group
// (wgmma), and the copy of a box into shared memory (TMA).
//
//   for warp in 0..4 (threadIdx.y) {
//     tensorized for m in 0..16 { for n in 0..N { for k in 0..16 {     32 bytes of k
//       C[..] = C[..] + f32(a[..])*f32(b[..]) } } } }         b: a tile in shared memory; a: one,
//                                                             or a fragment of 16-bit floats
//   tensorized for row in 0..R { for i in 0..64 {             128 bytes
//     tile[..] = select(inside, source[..], 0) } }
//   tensorized for row in 0..R { for i in 0..64 {             128 bytes; ends of C are not passed
//     C[..] = tile[..] } }
//
// The rows of a source may also be the windows of an image (BufferNode::windows).
//
// A tile is boxes of rows of 128 bytes, one row after the other. Rows run along the depth (one box:
// all rows or columns of the tile) or, of 16-bit floats, across it (boxes of 64 rows or columns of
// the tile and all of its depth, one box behind the other). Operands are floats of 16 or 8 bits,
// f32 as tf32 (TMA rounds while it copies), or bytes that are added up in i32.
#pragma once

#include <optional>
#include <vector>

#include "lower/gpu/tiles/tile_nest.h"

namespace heddle::gpu {

using instructions::NestLoop;

/// Whether the tile that `loops`, those of lines and of the depth, read is laid out in boxes along the
/// depth.
bool lies_along(const instructions::Place& p, const std::vector<NestLoop>& loops, std::string* why);

/// The part of a wgmma that one warp computes, if the loops describe one. `why` receives the reason
/// where they do not, here and below.
std::optional<TileNest> try_group_product(const std::vector<NestLoop>& loops, const Store& st,
                                          std::string* why);

/// The copy of a box, whatever its guards are.
std::optional<TileNest> try_bulk_load(const MarkedNest& nest, std::string* why);

/// The copy of a box from shared memory. Conditions may only keep it within its destination.
std::optional<TileNest> try_bulk_store(const std::vector<NestLoop>& loops, const Store& st,
                                       const std::vector<Expr>& conditions, std::string* why);

}  // namespace heddle::gpu
