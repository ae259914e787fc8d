#include "measure/task/race.h"

namespace heddle {

bool clearly_faster(const MeasureResult& candidate, const MeasureResult& base, int candidates,
                    double luck) {
  if (!candidate.ok()) return false;
  if (!base.ok()) return true;
  return clearly_faster(std::span(candidate.seconds), std::span(base.seconds), candidates, luck);
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
