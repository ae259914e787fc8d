// Where the matrix of dag/computed_matrix.h is computed.
#pragma once

#include "heddle/dag/computed_matrix.h"
#include "heddle/target/target.h"

namespace heddle {

/// Whether a kernel of `target` may compute tiles of the matrix where it reduces them, and there are
/// blocks for it: the sums and the operands of a tile fit registers, and the matrix is no smaller than
/// what it is made of, so that storing it moves more than reading its operands once more. GPUs take
/// 16-bit floats, CPUs f32 where the matrix does not fit the second cache.
bool reduces_where_computed(const ComputedMatrix& m, const Target& target);

}  // namespace heddle
