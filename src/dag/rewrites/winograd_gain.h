// What Winograd's form of a convolution gains, estimated.
#pragma once

#include "dag/patterns/convolution.h"
#include "heddle/dag/alternatives.h"

namespace heddle::winograd {

/// What the products of transformed tiles multiply.
enum class Products {
  AsSums,  ///< tiles in the type of the sums
  Units,   ///< what matrix units take: tiles in the type of the operands, or parts of f32 in tf32
};

/// The gain on a CPU, of tiles as sums.
RewriteEstimate gain_on_cpu(const RewriteSite& site, const dag::Convolution& conv,
                            const Target& target);
/// The gain on a GPU, whose kernels store the tiles and the sums in memory.
RewriteEstimate gain_on_gpu(const RewriteSite& site, const dag::Convolution& conv,
                            const Target& target, Products products);

}  // namespace heddle::winograd
