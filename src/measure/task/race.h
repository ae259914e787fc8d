// The winner of the final race.
#pragma once

#include <span>

#include "heddle/measure/measure.h"
#include "runtime/race/clearly_faster.h"

namespace heddle::measuring {

/// The index of the winner; 0 is the static choice. It wins ties, and loses only to a candidate
/// that is significantly faster, or when it does not work itself. -1 when none works.
int race_winner(std::span<const MeasureResult> results, double luck = kRaceLuck);

}  // namespace heddle::measuring
