#include "measure/race.h"

#include <algorithm>
#include <cmath>

namespace heddle {
namespace {

// Rounds of `rounds` that one of `candidates` must win for that: the sign test, its level divided
// among them (Bonferroni). More than `rounds` where they are too few.
size_t rounds_to_win(size_t rounds, int candidates, double luck) {
  const double level = luck / std::max(candidates, 1);
  size_t won = rounds + 1;
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

bool clearly_faster(const MeasureResult& candidate, const MeasureResult& base, int candidates,
                    double luck) {
  if (!candidate.ok()) return false;
  if (!base.ok()) return true;
  if (candidate.median() >= 0.995 * base.median()) return false;
  const size_t rounds = std::min(candidate.seconds.size(), base.seconds.size());
  if (rounds == 0) return false;
  const size_t needed = rounds_to_win(rounds, candidates, luck);
  if (needed > rounds) {
    // Too few rounds for that test. Its slowest must be faster by far than the base's fastest. What
    // else the machine does can last for a round or two, and take half of it.
    const double margin = rounds < 3 ? 0.5 : 0.95;
    return *std::max_element(candidate.seconds.begin(), candidate.seconds.end()) <
           margin * *std::min_element(base.seconds.begin(), base.seconds.end());
  }
  double won = 0;
  for (size_t i = 0; i < rounds; ++i) {
    if (candidate.seconds[i] < base.seconds[i]) won += 1;
    if (candidate.seconds[i] == base.seconds[i]) won += 0.5;
  }
  return won >= static_cast<double>(needed);
}

int race_winner(std::span<const MeasureResult> results, double luck) {
  int best = -1;
  const int candidates = static_cast<int>(results.size()) - 1;
  for (int i = 1; i < static_cast<int>(results.size()); ++i) {
    if (!results[i].ok() || !clearly_faster(results[i], results[0], candidates, luck)) continue;
    if (best < 0 || results[i].median() < results[best].median()) best = i;
  }
  if (best >= 0) return best;
  return !results.empty() && results[0].ok() ? 0 : -1;
}

}  // namespace heddle
