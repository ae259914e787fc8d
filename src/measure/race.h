// Who wins the final race.
#pragma once

#include <span>

#include "heddle/measure/measure.h"
#include "runtime/clearly_faster.h"

namespace heddle {

/// Whether `candidate` works and is faster than `base` beyond doubt, by the test of
/// runtime/clearly_faster.h, or `base` does not work.
bool clearly_faster(const MeasureResult& candidate, const MeasureResult& base, int candidates = 1,
                    double luck = kRaceLuck);

/// Index of the winner; 0 is the static choice, which wins ties and loses only to what works and is
/// clearly faster, or when it does not work itself. -1 when none works.
int race_winner(std::span<const MeasureResult> results, double luck = kRaceLuck);

}  // namespace heddle
