// Whether samples of two times differ beyond doubt.
#pragma once

#include <span>

namespace heddle {

/// The error that a race may make: the share of races between equals that somebody wins by luck.
inline constexpr double kRaceLuck = 1.0 / 15;

/// Whether `candidate` is faster than `base` beyond doubt: by half a percent in the median and, as
/// far as their samples were taken in turn, in clearly more rounds than it lost (a sign test: in
/// the share `luck` of races one of `candidates` that are as fast as their base wins). Where
/// there are too few rounds for that, all of its times must be less than all of the base's, by far.
/// A tie is not faster. Neither are empty lists of samples.
bool clearly_faster(std::span<const double> candidate, std::span<const double> base,
                    int candidates = 1, double luck = kRaceLuck);

/// The median of samples, at least one.
double median_of(std::span<const double> samples);

}  // namespace heddle
