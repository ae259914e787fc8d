// How often the candidates of a race over sizes take turns.
#pragma once

#include <limits>

namespace heddle::network {

constexpr double kUnknown = std::numeric_limits<double>::infinity();  // seconds of no call yet
constexpr double kHopeless = 2;  // times as long as the best candidate: it is timed once
constexpr int kFewRounds = 2, kMostRounds = 15;

}  // namespace heddle::network
