// Persistent blocks: the iterations that each of them runs, one after the other. Where the rounds
// are not full, blocks may share tiles: each reduces a part of the depth (shared_tiles.h).
//
//   persistent block t in 0..n { local C; C = 0; for k in 0..K { load; C += A*B }  store C }
//   -->
//   block b { for turn { t = turn*P + b  if (t < n) { .. } } }
//
// A loop whose persistence streams shares the tiles of the last round (target/last_round.h):
//
//   block b { begin, end = the steps of its run
//     for turn in 0..n/P + tiles of the run {
//       t = turn*P + b, first = 0, steps = K               in the run: a part of a tile
//       local C; C = 0; for k in 0..steps { load first + k; C += A*B }  store C } }
#pragma once

#include <optional>

#include "heddle/ir/stmt.h"
#include "lower/gpu/warp_group/shared_tiles.h"
#include "lower/gpu/warp_group/tile_ring.h"

namespace heddle::gpu {

/// A loop over tiles of several copies that TMA loads.
std::optional<FillAndUse> ring_of(const Stmt& s);

bool has_bulk_load(const Stmt& s);

/// `s` with a loop of one iteration around the loads of a sum whose depth is one tile, which has no
/// such loop of its own. Persistent blocks then load ahead as they do for deeper sums.
Stmt with_ring(const Stmt& s);

/// What the blocks of a kernel do one after the other.
struct Turns {
  std::optional<Var> turn;  ///< of the loop over them; none: a block has one turn
  Expr before;              ///< steps of a block before this turn, where tiles are shared
  std::optional<SharedTiles> shared;
  bool alternate = false;  ///< whether warp groups take every other turn each
};

/// Distributes the iterations of the loop over persistent blocks in `s` over `blocks` blocks.
Stmt in_turns(const Stmt& s, int64_t blocks, Turns* turns);

}  // namespace heddle::gpu
