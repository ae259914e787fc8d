// Tiles of a result that several blocks compute, each a part of the depth. They store their sums in
// memory. The warp group that arrives last adds up all parts in their order, so that results do not
// depend on which one that is. Nobody waits for another block.
//
//   local C = part of a sum
//   -->
//   if (shared) {
//     last = begins the tile and all others have arrived              it adds to its registers
//     if (!last) { parts[own] = C; last = arrive; if (last) C = parts[first] }
//     if (last) C += the other parts
//   }
//   if (last or not shared) ..
#pragma once

#include "heddle/ir/stmt.h"
#include "heddle/support/function_ref.h"

namespace heddle::gpu {

/// How the blocks share tiles: expressions of the thread that computes a part.
struct SharedTiles {
  Expr before;  ///< steps that the block has computed before this tile
  Expr shared;  ///< whether several blocks compute this tile; undefined: all are shared
  /// Whether the block has the first part of the tile and looks whether all others have arrived.
  /// Undefined: no block looks.
  Expr looks;
  Expr number;                   ///< of the shared tile
  Expr own;                      ///< the slot of memory for the block's part
  Expr first, parts;             ///< the slot of the tile's first part, and the number of parts
  int64_t distance = 1;          ///< between the slots of the others, which follow the first one
  int64_t tiles = 0, slots = 0;  ///< numbers of shared tiles and of slots
  Buffer memory, tickets;        ///< of all blocks; made by `with_all_parts`
};

/// `rest` after warp group `group` of `groups` has computed `sums`, where these are complete.
Stmt with_all_parts(SharedTiles& shared, const Buffer& sums, const Expr& group, int64_t groups,
                    const Stmt& rest);

}  // namespace heddle::gpu
