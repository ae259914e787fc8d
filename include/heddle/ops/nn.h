// Normalisations, softmax and attention.
//
//   Tensor p = ops::softmax(scores);                                  // along the last axis
//   Tensor y = ops::layer_norm(x, gamma, beta);                       // over the last axis
//   Tensor o = ops::scaled_dot_product_attention(q, k, v);
//
// All take floats. f16 and bf16 are computed in f32, and the result is rounded once. Scales and
// shifts may be left out: pass {}.
#pragma once

#include <cstdint>

#include "heddle/dsl/tensor.h"

namespace heddle::ops {

/// exp(x - max) / sum(exp(x - max)) along `axis`.
Tensor softmax(const Tensor& x, int axis = -1, Where where = Where::current());
/// x - max - log(sum(exp(x - max)))
Tensor log_softmax(const Tensor& x, int axis = -1, Where where = Where::current());

/// Inference: (x - mean) / sqrt(variance + epsilon) * scale + shift, each of them (C) along `axis`.
/// The part that depends on these four alone is a stage of its own, which is computed once where
/// they are constant.
Tensor batch_norm(const Tensor& x, const Tensor& scale, const Tensor& shift, const Tensor& mean,
                  const Tensor& variance, double epsilon = 1e-5, int axis = 1,
                  Where where = Where::current());

/// Normalises over the dimensions from `axis` on (Ba et al. 2016, arXiv:1607.06450). `scale` and
/// `shift` have their shape.
Tensor layer_norm(const Tensor& x, const Tensor& scale = {}, const Tensor& shift = {},
                  int axis = -1, double epsilon = 1e-5, Where where = Where::current());
/// x / sqrt(mean(x * x) + epsilon) * scale, over the dimensions from `axis` on (Zhang and Sennrich
/// 2019, arXiv:1910.07467).
Tensor rms_norm(const Tensor& x, const Tensor& scale = {}, int axis = -1, double epsilon = 1e-6,
                Where where = Where::current());
/// Normalises x (N, C, ...) over each of `groups` blocks of channels with their positions (Wu and
/// He 2018, arXiv:1803.08494). `scale` and `shift` are (C).
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& scale = {},
                  const Tensor& shift = {}, double epsilon = 1e-5, Where where = Where::current());
/// Normalises x (N, C, ...) over the positions of each channel (Ulyanov et al. 2016,
/// arXiv:1607.08022).
Tensor instance_norm(const Tensor& x, const Tensor& scale = {}, const Tensor& shift = {},
                     double epsilon = 1e-5, Where where = Where::current());
/// x / (bias + alpha / size * sum(x * x))^beta, the sum over `size` neighbouring channels of (N, C,
/// ...).
Tensor lrn(const Tensor& x, int64_t size, double alpha = 1e-4, double beta = 0.75,
           double bias = 1.0, Where where = Where::current());

/// softmax(q k^T * scale + mask) v: q (..., L, E), k (..., S, E), v (..., S, F) -> (..., L, F).
/// `mask` broadcasts to (..., L, S). It is added, or, if bool, is true for the positions to attend
/// to. A `scale` of 0 means 1 / sqrt(E). The result of a row that is masked completely is
/// undefined.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& mask = {}, double scale = 0,
                                    Where where = Where::current());

}  // namespace heddle::ops
