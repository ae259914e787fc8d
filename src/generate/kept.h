// Which tokens top_k and top_p leave, as a declaration.
#pragma once

#include "heddle/dsl/tensor.h"
#include "heddle/generate/sampling.h"

namespace heddle::generate {

/// Weights of tokens are counted in so many parts of that of the largest logit, so that their sums are
/// integers, which do not depend on an order.
inline constexpr double kParts = 0x1p40;

/// Whether each token of a row stays: (batch, vocabulary) of bool.
Tensor kept_tokens(const Tensor& logits, const Tensor& temperature, const DrawLimits& limits,
                   Where where);

}  // namespace heddle::generate
