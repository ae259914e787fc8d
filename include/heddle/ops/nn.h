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

/// What attention() computes beside two products and a softmax.
struct AttentionAttributes {
  /// Broadcasts to (..., L, S). It is added to the scores, or, if bool, is true for the keys that a
  /// query attends to.
  Tensor mask = {};
  double scale = 0;  ///< of the scores; 0: 1 / sqrt(E)
  double softcap =
      0;  ///< scores s become softcap * tanh(s / softcap) before the mask; 0: they stay
  /// The position of query l is l + offset, that of key s is s. Keys after the position of a query
  /// are not attended to, and neither are those more than `left` before or `right` after it (-1: all
  /// are).
  bool causal = false;
  int64_t left = -1, right = -1;
  int64_t offset = 0;
  Tensor offsets = {};      ///< (N), integers for the first dimension of q, in place of `offset`
  Tensor lengths = {};      ///< (N): keys from there on are not attended to
  bool empty_rows = false;  ///< a query that attends to no key gives zeros; else that is undefined
};
/// The result (..., L, F), and what it was computed from; 16-bit floats have them in f32.
struct AttentionResult {
  Tensor result;
  Tensor products;  ///< q k^T (..., L, S)
  Tensor scores;    ///< what the softmax reads, -inf where a key is not attended to
  Tensor
      attended;  ///< bool, broadcasts to (..., L, 1): whether a query attends to any key. Undefined
                 ///< where each does
};
/// Attention (Vaswani et al. 2017, arXiv:1706.03762): q (..., L, E), k (..., S, E), v (..., S, F). The
/// heads, dimension -3 of k and v, may be fewer than those of q by a factor; each is then read by
/// several heads in a row (Ainslie et al. 2023, arXiv:2305.13245).
AttentionResult attention(const Tensor& q, const Tensor& k, const Tensor& v,
                          const AttentionAttributes& attributes = {},
                          Where where = Where::current());

/// Rotates pairs of the elements of x (N, H, L, E) by angles (Su et al. 2021, arXiv:2104.09864).
/// `cosines` and `sines` are (L, R / 2), or (N, L, R / 2). The pairs are the elements i and i + R / 2,
/// or with `interleaved` 2 i and 2 i + 1; those from R on stay as they are.
Tensor rotary_embedding(const Tensor& x, const Tensor& cosines, const Tensor& sines,
                        bool interleaved = false, Where where = Where::current());

/// softmax(q k^T * scale + mask) v: q (..., L, E), k (..., S, E), v (..., S, F) -> (..., L, F).
/// `mask` broadcasts to (..., L, S). It is added, or, if bool, is true for the positions to attend
/// to. A `scale` of 0 means 1 / sqrt(E). The result of a row that is masked completely is
/// undefined.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& mask = {}, double scale = 0,
                                    Where where = Where::current());

}  // namespace heddle::ops
