// Buffers of which several copies are in rotation: one is filled while others are used.
#pragma once

#include <optional>
#include <vector>

#include "heddle/ir/simplify.h"

namespace heddle::gpu {

/// Buffers that are filled together, and of how many copies.
struct Tiles {
  std::vector<Buffer> tiles;
  int copies = 1;
  bool has(const Buffer& b) const;
};

/// A loop that fills buffers of several copies and then uses them.
struct FillAndUse {
  Tiles t;
  std::vector<Buffer> others;  ///< allocated in the loop too, one copy
  std::vector<Buffer> rings;   ///< of all copies, one for each tile
  Stmt fill, use;
};

/// `loop` as such, of buffers in `scope`.
std::optional<FillAndUse> fill_and_use(const For& loop, Scope scope);

/// The copy that iteration `k` has.
Expr slot(const Tiles& t, const Expr& k);

/// `s` with accesses to the tiles in copy `slot` of the rings. `producer`: its stores to them
/// become asynchronous where cp.async can do them.
Stmt in_slot(const Stmt& s, const FillAndUse& p, const Expr& slot, bool producer);

}  // namespace heddle::gpu
