// The next token of a language model.
#pragma once

#include <cstdint>
#include <span>

namespace heddle {

/// How a token is drawn.
struct Sampling {
  /// What logits are divided by; 0: the token with the largest logit, the first of several.
  double temperature = 0;
  /// Of how many of the largest logits one is drawn; 0: of all.
  int64_t top_k = 0;
  /// Of these, the fewest of the largest whose probabilities sum to this (Holtzman et al. 2020,
  /// arXiv:1904.09751).
  double top_p = 1;
  uint64_t seed = 0;
};

/// Throws a User error for a temperature or a top_k below 0 and for a top_p that is not in (0, 1].
void check_sampling(const Sampling& how);

/// The position of the token. The random number is a function of the seed and of `number` alone, the
/// output of SplitMix64 (Steele et al. 2014) at that place, so that draws do not depend on each
/// other. A NaN is never drawn. Throws a Runtime error where all logits are NaN.
int64_t sample(std::span<const float> logits, const Sampling& how, uint64_t number);

}  // namespace heddle
