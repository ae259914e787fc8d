// The loops of a product of matrices on matrix units.
#pragma once

#include "cuda/products/tensor_core_shape.h"

namespace heddle::meta {

/// The knobs of the recipe. `k_part` and `channels_last` exist where there is such a decision.
struct TensorCoreKnobs {
  Param row_tiles, row_warps, col_tiles, col_warps, reduction, k_part, tile_k, stages,
      channels_last;
};

/// Writes one form of the reduction: the whole depth in each block, or parts that a second kernel
/// adds up.
void tensor_core_whole(TemplateBuilder& t, const StageGroup& g, const TensorCoreShape& shape,
                       const TensorCoreKnobs& knobs);
void tensor_core_parts(TemplateBuilder& t, const StageGroup& g, const TensorCoreShape& shape,
                       const TensorCoreKnobs& knobs);

}  // namespace heddle::meta
