// A test of whether the samples of two times differ significantly.
#pragma once

#include <span>

namespace heddle {

/// The error probability of a race: the share of races between equals that one of them wins by
/// chance.
inline constexpr double kRaceLuck = 1.0 / 15;

/// Whether `candidate` is significantly faster than `base`. It must be faster by half a percent in
/// the median. Where samples were taken in turn, it must also win significantly more rounds than it
/// loses: a sign test with error probability `luck` over the number of candidates in the race.
/// Where there are too few rounds for the test, all of its times must be far below all times of the
/// base. A tie is not faster, and neither is an empty list of samples.
bool clearly_faster(std::span<const double> candidate, std::span<const double> base,
                    int candidates = 1, double luck = kRaceLuck);

/// The median of samples, at least one.
double median_of(std::span<const double> samples);

}  // namespace heddle
