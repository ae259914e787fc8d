#include "runtime/race/clearly_faster.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace heddle {
namespace {

// The number of `rounds` that one of `candidates` must win. This is the sign test with its level
// divided among the candidates (Bonferroni). More than `rounds` where there are too few rounds.
std::size_t rounds_to_win(std::size_t rounds, int candidates, double luck) {
  const double level = luck / std::max(candidates, 1);
  std::size_t won = rounds + 1;
  double log_chance = -static_cast<double>(rounds) *
                      std::log(2);  // log of the chance to win exactly won - 1 rounds
  double tail = 0;                  // the chance to win `won` rounds or more
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
    // There are too few rounds for the test. The candidate's slowest time must then be far below
    // the base's fastest one, because other programs may disturb a round or two and take half of
    // the machine.
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
