// Rng: a small random generator (xoshiro256**) whose sequence depends on its seed only, on every
// machine. Always seeded explicitly; the standard library's distributions are not used because they
// differ between implementations.
#pragma once

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

namespace heddle {

/// A pseudo-random generator (xoshiro256**, Blackman and Vigna 2018). The same seed gives the same
/// numbers on every machine.
class Rng {
 public:
  using result_type = std::uint64_t;

  explicit Rng(std::uint64_t seed);

  /// 64 random bits. With min and max this is a UniformRandomBitGenerator.
  std::uint64_t operator()() {  // inline: arrays of millions are filled with these
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }
  static constexpr std::uint64_t min() { return 0; }
  static constexpr std::uint64_t max() { return ~std::uint64_t{0}; }

  /// Uniform over lo..hi, both included. Needs lo <= hi.
  std::int64_t uniform_int(std::int64_t lo, std::int64_t hi);
  /// Uniform over [lo, hi).
  double uniform_real(double lo = 0.0, double hi = 1.0) {
    const double unit = static_cast<double>((*this)() >> 11) * 0x1p-53;
    return lo + (hi - lo) * unit;
  }
  /// Normally distributed with mean 0 and standard deviation 1.
  double normal();
  /// True with this probability.
  bool chance(double probability) { return uniform_real() < probability; }

  template <typename T>
  const T& choose(const std::vector<T>& items) {
    return items[static_cast<std::size_t>(
        uniform_int(0, static_cast<std::int64_t>(items.size()) - 1))];
  }
  template <typename T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) {
      std::swap(items[i - 1],
                items[static_cast<std::size_t>(uniform_int(0, static_cast<std::int64_t>(i) - 1))]);
    }
  }

  /// A generator whose sequence is independent of this one's further draws.
  Rng fork();

 private:
  std::uint64_t state_[4];
};

}  // namespace heddle
