// What operators of attention share.
#pragma once

#include "heddle/ops/nn.h"
#include "onnx/node_scope.h"

namespace heddle::onnx {

/// (N, L, H * E) -> (N, H, L, E). A tensor of rank 4 is returned as it is.
Tensor heads_first(const NodeScope& s, const Tensor& x, int64_t heads);
/// (N, H, L, E) -> (N, L, H * E)
Tensor heads_last(const NodeScope& s, const Tensor& x);
/// x (N, H, L, E) behind input `past` (N, H, P, E), which may be missing or have no elements.
Tensor after_past(const NodeScope& s, int past, const Tensor& x);
/// The number of positions of input `past`, 0 where it is missing.
int64_t past_length(const NodeScope& s, int past);

/// Rotates x (N, H, L, E) or (N, L, H * E) by the rows of caches (P, R / 2) at `positions`, (N, L) or
/// one number that is the first; undefined: the caches are (L, R / 2) or (N, L, R / 2).
Tensor rotated(const NodeScope& s, const Tensor& x, Tensor cosines, Tensor sines,
               const Tensor& positions);

}  // namespace heddle::onnx
