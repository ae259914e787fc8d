// Buffers of which several copies are used in rotation: one is filled while others are read.
#pragma once

#include <optional>
#include <vector>

#include "heddle/ir/simplify.h"

namespace heddle::gpu {

/// Buffers that are filled together, and their number of copies.
struct Tiles {
  std::vector<Buffer> tiles;
  int copies = 1;
  bool has(const Buffer& b) const;
};

/// A loop that fills buffers of several copies and then uses them.
struct FillAndUse {
  Tiles t;
  std::vector<Buffer> others;  ///< other buffers that the loop allocates, with one copy
  std::vector<Buffer> rings;   ///< buffers of all copies, one for each tile
  Stmt fill, use;
};

/// The form of `loop` for buffers in `scope`, if it has this form.
std::optional<FillAndUse> fill_and_use(const For& loop, Scope scope);

/// The copy that iteration `k` uses.
Expr slot(const Tiles& t, const Expr& k);

/// `s` with accesses to the tiles in copy `slot` of the rings. With `producer`, its stores to them
/// become asynchronous where cp.async can execute them.
Stmt in_slot(const Stmt& s, const FillAndUse& p, const Expr& slot, bool producer);

}  // namespace heddle::gpu
