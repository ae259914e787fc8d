#include "heddle/support/rng.h"

#include <cmath>

#include "heddle/support/error.h"
#include "support/hashing/hash.h"

namespace heddle {

Rng::Rng(std::uint64_t seed) {
  // mix64 is splitmix64, the seeding that the authors of xoshiro recommend. It never gives four
  // zeros.
  for (std::uint64_t& word : state_) {
    word = mix64(seed);
    seed += 0x9e3779b97f4a7c15ULL;
  }
}

std::int64_t Rng::uniform_int(std::int64_t lo, std::int64_t hi) {
  HEDDLE_ICHECK(lo <= hi, "uniform_int over the empty range " + std::to_string(lo) + ".." +
                              std::to_string(hi));
  const std::uint64_t span = static_cast<std::uint64_t>(hi) - static_cast<std::uint64_t>(lo) + 1;
  if (span == 0) return static_cast<std::int64_t>((*this)());  // all 64 bits
  // Draws above the last whole multiple of span are discarded, so that all values are equally
  // likely.
  const std::uint64_t limit = max() - max() % span;
  std::uint64_t draw = (*this)();
  while (draw >= limit) draw = (*this)();
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(lo) + draw % span);
}

double Rng::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform_real()));
  return radius * std::cos(6.283185307179586 * uniform_real());
}

Rng Rng::fork() { return Rng((*this)()); }

}  // namespace heddle
