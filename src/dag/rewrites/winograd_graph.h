// The graph that computes a convolution by Winograd's algorithm (winograd.cpp).
#pragma once

#include "dag/patterns/convolution.h"
#include "dag/rewrites/winograd_gain.h"

namespace heddle::winograd {

/// The results of `op`, which is the convolution `conv`, by tiles of m x m results.
Tensor graph_of(const Operation& op, const dag::Convolution& conv, int64_t m, Products products);

}  // namespace heddle::winograd
