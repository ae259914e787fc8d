// The next token of a language model.
//
// A token is the one with the largest sum of its logit and noise of Gumbel's distribution times the
// temperature, which is drawn with the probabilities of softmax(logits / temperature) (Gumbel
// 1954). The noise of token i is -log(-log(u)) in f64, where u is the middle of the interval that
// the upper 52 of 64 random bits name: output i of SplitMix64 (Steele et al. 2014) of the draw's
// stream. Draws do not depend on each other, and are the same on every target but for logarithms
// that differ in their last bit.
#pragma once

#include <cstdint>
#include <span>

#include "heddle/dsl/tensor.h"

namespace heddle {

/// How a token is drawn.
struct Sampling {
  /// What logits are divided by; 0: the token with the largest logit, the first of several.
  double temperature = 0;
  /// Of how many of the largest logits one is drawn; 0: of all. Logits of one level stay together:
  /// a level is how far one is below the largest, in steps of 1/512 of the temperature and up to 32
  /// temperatures. 1: the largest alone.
  int64_t top_k = 0;
  /// Of these, the fewest of the largest levels whose probabilities sum to this (Holtzman et al.
  /// 2020, arXiv:1904.09751), in parts of 2^-26 of the largest, so that no order of sums decides.
  /// 1: all of them.
  double top_p = 1;
  uint64_t seed = 0;
};

/// top_k (1) of i64 and top_p (1) of f64 as inputs of a declaration.
struct DrawLimits {
  Tensor top_k, top_p;
};

/// Throws a User error for a temperature or a top_k below 0 and for a top_p that is not in (0, 1].
void check_sampling(const Sampling& how);

/// The stream of a draw: output `number` of SplitMix64 of the seed.
uint64_t stream_of(uint64_t seed, uint64_t number);

/// The token that draw `number` takes. A NaN is never drawn, and of several infinite logits the
/// first is. Throws a Runtime error where all logits are NaN.
int64_t sample(std::span<const float> logits, const Sampling& how, uint64_t number);

/// Throws a User error for probabilities of another number than the vocabulary, for those that are
/// negative, not finite or do not sum to 1 within 1e-3, and where that of `drafted`, which was
/// drawn of them, is not positive.
void check_shares(int64_t vocabulary, int64_t drafted, std::span<const float> shares);

/// The token in the place of one that was drafted with probability `shares`(drafted), where
/// `shares` (vocabulary) are those of another model: `drafted` itself with probability min(1, p /
/// share), else a draw of max(p - shares, 0), where p are the probabilities of sample(). The token
/// has those of sample() then, where `drafted` was drawn of the shares and these are probabilities
/// (Leviathan et al. 2023, arXiv:2211.17192). Its random numbers are others than those of sample()
/// for this number. Throws what check_shares and sample throw.
int64_t accept_or_draw(std::span<const float> logits, int64_t drafted,
                       std::span<const float> shares, const Sampling& how, uint64_t number);

/// sample() as a declaration: logits (batch, vocabulary) of f32, streams (batch) of u64, a
/// temperature (1) of f64 -> tokens (batch) of i64, -1 where all logits are NaN. Without `limits` a
/// token is drawn of all. Throws a User error for other shapes and types.
Tensor draw(const Tensor& logits, const Tensor& streams, const Tensor& temperature,
            const DrawLimits& limits = {}, Where where = Where::current());

}  // namespace heddle
