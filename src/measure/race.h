// Who wins the final race.
#pragma once

#include <span>

#include "heddle/measure/measure.h"

namespace heddle {

/// The error that a race may make: the share of races between equals that somebody wins by luck.
inline constexpr double kRaceLuck = 1.0 / 15;

/// Whether `candidate` is faster than `base` beyond doubt: by half a percent in the median and, as
/// far as their samples were taken in turn, in clearly more rounds than it lost (a sign test: in
/// the share `luck` of races one of `candidates` that are as fast as their base wins). Where
/// there are too few rounds for that, all of its times must be less than all of the base's, by far.
/// A tie is not faster.
bool clearly_faster(const MeasureResult& candidate, const MeasureResult& base, int candidates = 1,
                    double luck = kRaceLuck);

/// Index of the winner; 0 is the static choice, which wins ties and loses only to what works and is
/// clearly faster, or when it does not work itself. -1 when none works.
int race_winner(std::span<const MeasureResult> results, double luck = kRaceLuck);

}  // namespace heddle
