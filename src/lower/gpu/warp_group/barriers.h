// Barriers in shared memory, at which boxes that TMA loads arrive.
#pragma once

#include <optional>

#include "heddle/ir/stmt.h"

namespace heddle::gpu {

/// `op` on the barrier in `slot`.
Stmt on_barrier(tile::Operation op, const Buffer& barrier, const Expr& slot);

/// Waits until the phase of this parity of the barrier in `slot` has ended.
Stmt wait_at(const Buffer& barrier, const Expr& slot, const Expr& parity);

/// `loads`, of which all bytes arrive at the barrier in `slot`. Boxes that do not depend on `rank`, which
/// is that of a block in its pair, are loaded by both blocks together.
Stmt arriving(const Stmt& loads, const Buffer& barrier, const Expr& slot,
              const std::optional<Var>& rank);

}  // namespace heddle::gpu
