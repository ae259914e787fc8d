// Persistent blocks: the iterations that each of them runs, one after the other. Where the last
// round has too few iterations for all blocks, several blocks may share one of them (StreamX): each
// reduces a part of the depth (data-parallel tiles and a split last wave, after stream-K, Osama et
// al. 2023). They store their sums in memory. The warp group that arrives last adds up all parts in
// their order, so that results do not depend on which one that is.
//
//   streaming block t in 0..n { local C; C = 0; for k in 0..K { load; C += A*B }  store C }
//   -->
//   block b { for turn in 0..n/P + 1 {
//     t = turn*P + b, first = 0, steps = K               the last turn: a part of a tile
//     local C; C = 0; for k in 0..steps { load first + k; C += A*B }
//     if (last turn) { parts[t, part] = C; arrive; if (last) C = sum of parts[t] }
//     if (all of C or last) store C } }
#pragma once

#include <optional>

#include "heddle/ir/stmt.h"
#include "heddle/target/last_round.h"
#include "lower/gpu/tile_ring.h"

namespace heddle::gpu {

/// A loop over tiles of several copies that TMA loads.
std::optional<FillAndUse> ring_of(const Stmt& s);

bool has_bulk_load(const Stmt& s);

/// `s` with a loop of one iteration around the loads of a sum whose depth is one tile, which has no
/// such loop of its own. Persistent blocks then load ahead as they do for deeper sums.
Stmt with_ring(const Stmt& s);

/// Tiles that several blocks share.
struct SharedTiles {
  LastRound round;
  int64_t depth = 0;      ///< steps of the whole reduction
  Expr shared;            ///< whether the tile of this turn is shared
  Expr tile, part;        ///< the number of the shared tile, and of the block's part
  Buffer parts, tickets;  ///< memory of all blocks; made by `with_all_parts`
};

/// Distributes the iterations of the loop over persistent blocks in `s` over `blocks` blocks.
Stmt in_turns(const Stmt& s, int64_t blocks, std::optional<SharedTiles>* shared);

/// `rest` after warp group `group` of `groups` has computed `sums`, where these are complete.
Stmt with_all_parts(SharedTiles& shared, const Buffer& sums, const Expr& group, int64_t groups,
                    const Stmt& rest);

}  // namespace heddle::gpu
