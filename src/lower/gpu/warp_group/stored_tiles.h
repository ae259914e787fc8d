// Results that warp groups leave in shared memory and TMA copies to memory, while the groups go on
// to the next tile:
//
//   shared C { fill C; bulk_store C }
//   -->
//   one thread: wait until TMA has read C; group barrier; fill C (swizzled)
//   fence; group barrier; one thread: bulk_store C; commit
//
// Each warp group fills and copies boxes of its own, so groups do not wait for each other.
#pragma once

#include <vector>

#include "heddle/ir/stmt.h"

namespace heddle::gpu {

/// `s` run by one thread of a warp group.
Stmt by_one_thread(const Stmt& s);

bool has_bulk_store(const Stmt& s);

/// Whether BulkStores copy what `a` allocates.
bool is_stored_tile(const Allocate& a);

/// Whether `s` stores to one of `tiles`.
bool fills(const Stmt& s, const std::vector<Buffer>& tiles);

/// `fill` with the pieces of each row of the tiles where TMA expects them, after the earlier copy.
Stmt filled_tile(const Stmt& fill, const std::vector<Buffer>& tiles);

/// The BulkStores in `s`, after all threads have filled the tile.
Stmt copied_tile(const Stmt& s);

/// Waits until TMA has read all tiles.
Stmt wait_for_copies();

}  // namespace heddle::gpu
