// The operands of a product on matrix units: their tiles in shared memory, and the fragments that
// warps load from the tiles.
#pragma once

#include "cuda/products/tensor_core_recipe.h"

namespace heddle::meta {

/// An operand of a product on matrix units.
struct TensorCoreOperand {
  StageRef source;  ///< source of the tile: the operand, or a few of its bytes in registers
  StageRef tile;    ///< in shared memory
};

/// Places the tile of operand `which` (0: of the rows, 1: of the columns) at loop `k_tile` of
/// `acc`, and the fragments that a warp loads from it at loop `step`.
void schedule_operand(const TensorCoreShape& shape, const TensorCoreKnobs& knobs, size_t which,
                      const TensorCoreOperand& operand, StageRef acc, Loop k_tile, Loop step);

}  // namespace heddle::meta
