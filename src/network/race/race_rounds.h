// How often the candidates of a race over sizes take turns.
#pragma once

#include "runtime/race/race.h"

namespace heddle::network {

constexpr double kUnknown = std::numeric_limits<double>::infinity();  // seconds of no call yet

/// One that takes twice as long as the best candidate is timed once.
inline const racing::Rules kSizeRules{.most_rounds = 15,
                                      .fewest_rounds = 2,
                                      .hopeless = 2,
                                      .against = racing::Against::Leader,
                                      .summary = racing::Summary::Least,
                                      .fewest_racing = 1};

}  // namespace heddle::network
