// libxsmm as a peer: kernels compiled at run time for one small product. Row-major, dense, f32.
#pragma once

#include <functional>
#include <string>

#include "peers/gemm_shape.h"

namespace heddle::peers {

bool libxsmm_available();
std::string libxsmm_version();

// C = A * B on the calling thread. Null where libxsmm has no kernel (transposed operands), or the
// product is not small: it blocks for registers only, and m*n*k beyond 256^3 is not what it is for.
std::function<void(const float* a, const float* b, float* c)> libxsmm_kernel(
    const GemmShape& shape);

}  // namespace heddle::peers
