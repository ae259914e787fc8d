// What a block and a multiprocessor can hold of a tile of warp groups, for the rule and the knobs.
#pragma once

#include <vector>

#include "cuda/products/warp_group.h"
#include "heddle/target/last_round.h"

namespace heddle::meta {

/// Bytes of shared memory besides the tiles: barriers and alignment.
inline constexpr int64_t kOtherBytes = 2048;
/// The most accumulators of a thread of `groups` warp groups, out of the registers that setmaxnreg leaves it.
constexpr int64_t most_accumulators(int64_t groups) { return groups > 2 ? 128 : 208; }

/// Bytes of the operands' tiles of one step.
int64_t stage_bytes(const WarpGroupTile& t);
/// Bytes of the results that wait for TMA.
int64_t boxed_bytes(const TensorCoreProblem& p, const WarpGroupTile& t);
/// The most steps whose operands fit shared memory.
int64_t most_stages(const TensorCoreProblem& p, const WarpGroupTile& t);
/// Whether rows of boxes of results are filled, or pieces of 16 bytes where lanes store them. Rows of the results
/// of an exchanged product run along the 64 rows of a tile.
bool may_box(const TensorCoreProblem& p, const WarpGroupTile& t);
/// The threads of a block. One more warp group loads.
int64_t threads_of(const WarpGroupTile& t);
/// Whether TMA has boxes of that many rows, and none lies beyond the end in every tile. Lowering would not recognise the load of such
/// a box, because its index is simplified by the bounds that it violates.
bool boxes_of_use(const WarpGroupTile& t, int64_t rows, int64_t cols);
/// Registers of a thread for sums.
int64_t accumulators(const TensorCoreProblem& p, int64_t tiles, int64_t cols);
/// The numbers of columns of a tile. If columns run across the depth, rows of a box have 64
/// columns; otherwise a tile has a multiple of the eight rows after which boxes are swizzled alike.
std::vector<int64_t> column_counts(const TensorCoreProblem& p);
/// Tiles down the result. Where pairs of blocks leave one over, its partner has no rows.
int64_t rows_of_tiles(int64_t rows, const WarpGroupTile& t);
int64_t tiles_of(const TensorCoreProblem& p, const WarpGroupTile& t);
/// The last round where blocks share its tiles.
LastRound shared_round(const TensorCoreProblem& p, const WarpGroupTile& t);
/// Whether blocks can share tiles as `t` says. Pairs of blocks share none.
bool may_share(const TensorCoreProblem& p, const WarpGroupTile& t);
/// Whether warp groups can take turns as `t` says. They do where a block has several tiles.
bool may_take_turns(const TensorCoreProblem& p, const WarpGroupTile& t);

}  // namespace heddle::meta
