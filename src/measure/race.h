// Who wins the final race.
#pragma once

#include <span>

#include "heddle/measure/measure.h"

namespace heddle {

/// Whether `candidate` is faster than `base` beyond doubt: by half a percent in the median and, as
/// far as their samples were taken in turn, in clearly more rounds than it lost (a sign test: in
/// one race of fifteen luck does it for one of `candidates` that are as fast as their base). Where
/// there are too few rounds for that, all of its times must be less than all of the base's, by far.
/// A tie is not faster.
bool clearly_faster(const MeasureResult& candidate, const MeasureResult& base, int candidates = 1);

/// Index of the winner; 0 is the static choice, which wins ties and loses only to what works and is
/// clearly faster, or when it does not work itself. -1 when none works.
int race_winner(std::span<const MeasureResult> results);

}  // namespace heddle
