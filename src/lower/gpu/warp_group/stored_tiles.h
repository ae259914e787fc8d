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
#include "heddle/support/function_ref.h"

namespace heddle::gpu {

class GroupOrder;

/// `s` run by one thread of a warp group.
Stmt by_one_thread(const Stmt& s);

/// Whether BulkStores copy what `a` allocates.
bool is_stored_tile(const Allocate& a);

/// The tiles of results of a kernel.
class StoredTiles {
 public:
  explicit StoredTiles(const GroupOrder& order) : order_(order) {}

  /// What `rewrite` makes of the body of `tile`, without the allocation. Warp groups that take turns have a
  /// tile each.
  Stmt open(const Allocate& tile, FunctionRef<Stmt(const Stmt&)> rewrite);
  /// What `rewrite` makes of `s`, with the waits of what fills or copies a tile.
  Stmt around(const Stmt& s, FunctionRef<Stmt(const Stmt&)> rewrite);
  /// Waits until TMA has read all tiles.
  Stmt end() const;

  const std::vector<Buffer>& tiles() const { return tiles_; }

 private:
  const GroupOrder& order_;
  std::vector<Buffer> tiles_;
  bool inside_ = false;  // of a statement that fills or copies them
};

}  // namespace heddle::gpu
