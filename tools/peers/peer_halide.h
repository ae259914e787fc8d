// Halide's Adams2019 autoscheduler as a peer. Its own executable (tools/peers/halide, beside the
// program that runs) compiles a pipeline for given sizes to a shared library, which is loaded here:
// so its kernels are timed in one process with the others, and Halide's LLVM never meets Heddle's.
#pragma once

#include <functional>
#include <string>

#include "peers/gemm_shape.h"

namespace heddle::peers {

bool halide_available();  // built with Halide's runtime header, and the executable is there

struct HalideOp {
  std::function<void()> run;  // null: see error
  std::string error;
};

// The autoscheduler takes seconds, and gets sixty. Libraries are kept in the folder
// HEDDLE_HALIDE_CACHE where that is set.
HalideOp halide_matmul(const GemmShape& shape, int threads, const float* a, const float* b,
                       float* c);

// One image, (h, w, c) with its border, weights (r, s, c, k).
struct HalideConv {
  int64_t c = 1, h = 1, w = 1, k = 1, r = 1, s = 1, stride = 1;
};
HalideOp halide_conv(const HalideConv& conv, int threads, const float* x, const float* weight,
                     float* y);

}  // namespace heddle::peers
