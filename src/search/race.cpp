#include "search/race.h"

#include <algorithm>
#include <cmath>

namespace heddle {

bool clearly_faster(const MeasureResult& candidate, const MeasureResult& base) {
  if (!candidate.ok()) return false;
  if (!base.ok()) return true;
  if (candidate.median() >= 0.995 * base.median()) return false;
  size_t rounds = std::min(candidate.seconds.size(), base.seconds.size());
  double won = 0;
  for (size_t i = 0; i < rounds; ++i) {
    if (candidate.seconds[i] < base.seconds[i]) won += 1;
    if (candidate.seconds[i] == base.seconds[i]) won += 0.5;
  }
  double n = static_cast<double>(rounds);
  // Too few rounds for a test: it must have won them all, and by far.
  if (rounds < 3) return won == n && candidate.median() < 0.95 * base.median();
  return won >= n / 2 + 0.8 * std::sqrt(n);
}

int race_winner(std::span<const MeasureResult> results) {
  int best = -1;
  for (int i = 1; i < static_cast<int>(results.size()); ++i) {
    if (!results[i].ok() || !clearly_faster(results[i], results[0])) continue;
    if (best < 0 || results[i].median() < results[best].median()) best = i;
  }
  if (best >= 0) return best;
  return !results.empty() && results[0].ok() ? 0 : -1;
}

}  // namespace heddle
