// The operands of a product on the tensor cores: their tiles in shared memory, and the fragments in
// registers that warps load from those.
#pragma once

#include "cuda/tensor_core_recipe.h"

namespace heddle::meta {

/// An operand on its way to the tensor cores.
struct TensorCoreOperand {
  StageRef source;  ///< what the tile copies: the operand, or a few of its bytes in registers
  StageRef tile;    ///< in shared memory
};

/// Places the tile of operand `which` (0: of the rows, 1: of the columns) at loop `k_tile` of
/// `acc`, and the fragments that a warp takes from it at loop `step`.
void schedule_operand(const TensorCoreShape& shape, const TensorCoreKnobs& knobs, size_t which,
                      const TensorCoreOperand& operand, StageRef acc, Loop k_tile, Loop step);

}  // namespace heddle::meta
