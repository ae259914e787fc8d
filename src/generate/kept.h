// Which tokens top_k and top_p leave, as a declaration.
#pragma once

#include "heddle/dsl/tensor.h"
#include "heddle/generate/sampling.h"

namespace heddle::generate {

/// A token has a level: how far its logit is below the largest, in so many steps a temperature. The last level is that
/// of all that are farther.
inline constexpr double kSteps = 512;
inline constexpr int64_t kLevels = 16384;
/// Weights of levels are counted in so many parts of that of the first, so that their sums are integers, which do not
/// depend on an order.
inline constexpr double kParts = 0x1p26;

/// Tokens stay whose levels, (batch, vocabulary) of i32, are not beyond the limits of their rows, (batch) of i32.
struct Kept {
  Tensor levels, limits;
};

Kept kept_tokens(const Tensor& logits, const Tensor& temperature, const DrawLimits& limits,
                 Where where);

}  // namespace heddle::generate
