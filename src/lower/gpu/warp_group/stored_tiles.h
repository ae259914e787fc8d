// Results that warp groups leave in shared memory. TMA copies them to memory, while the groups go on
// to the next tile:
//
//   shared C { fill C; bulk_store C }
//   -->
//   one thread: wait until TMA has read C; group barrier; fill C (swizzled)
//   fence; group barrier; one thread: bulk_store C; commit
//
// or lanes copy to memory, where rows of the tile are no boxes:
//
//   group barrier; fill C; group barrier; copy C
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

/// Whether lanes fill what `a` allocates, to be copied to memory.
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
  bool by_tma_ = false;  // whether BulkStores copy them
};

}  // namespace heddle::gpu
