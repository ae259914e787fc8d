// Stores by which threads of all blocks combine their parts of one element: S[i] = S[i] + x, where S[i] is
// read and written at once (an atomic instruction of a GPU).
#pragma once

#include "heddle/ir/stmt.h"

namespace heddle {

/// A bit of StoreHint. Elsewhere than on a GPU it changes nothing.
constexpr StoreHint kCombined = static_cast<StoreHint>(16);

/// What such a store combines with its element, and how.
struct CombinedPart {
  BinaryOp op;
  Expr part;
};
/// Throws an internal error for other stores.
CombinedPart combined_part(const Store& store);

}  // namespace heddle
