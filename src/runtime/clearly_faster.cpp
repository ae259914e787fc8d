#include "runtime/clearly_faster.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace heddle {
namespace {

// Rounds of `rounds` that one of `candidates` must win for that: the sign test, its level divided
// among them (Bonferroni). More than `rounds` where they are too few.
std::size_t rounds_to_win(std::size_t rounds, int candidates, double luck) {
  const double level = luck / std::max(candidates, 1);
  std::size_t won = rounds + 1;
  double log_chance = -static_cast<double>(rounds) * std::log(2);  // of winning exactly won - 1
  double tail = 0;                                                 // of winning won or more
  while (tail + std::exp(log_chance) <= level) {
    tail += std::exp(log_chance);
    --won;
    log_chance += std::log(static_cast<double>(won) / static_cast<double>(rounds - won + 1));
  }
  return won;
}

}  // namespace

double median_of(std::span<const double> samples) {
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t n = sorted.size();
  return n % 2 == 1 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
}

bool clearly_faster(std::span<const double> candidate, std::span<const double> base, int candidates,
                    double luck) {
  const std::size_t rounds = std::min(candidate.size(), base.size());
  if (rounds == 0 || median_of(candidate) >= 0.995 * median_of(base)) return false;
  const std::size_t needed = rounds_to_win(rounds, candidates, luck);
  if (needed > rounds) {
    // Too few rounds for that test. Its slowest must be faster by far than the base's fastest. What
    // else the machine does can last for a round or two, and take half of it.
    const double margin = rounds < 3 ? 0.5 : 0.95;
    return *std::max_element(candidate.begin(), candidate.end()) <
           margin * *std::min_element(base.begin(), base.end());
  }
  double won = 0;
  for (std::size_t i = 0; i < rounds; ++i) {
    if (candidate[i] < base[i]) won += 1;
    if (candidate[i] == base[i]) won += 0.5;
  }
  return won >= static_cast<double>(needed);
}

}  // namespace heddle
