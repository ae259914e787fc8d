// The times of several calls that do the same.
#pragma once

#include <functional>
#include <vector>

#include "heddle/target/target.h"

namespace heddle::cli {

struct TurnTimes {
  std::vector<double> seconds;  ///< of one call: medians, in the order of the calls
  int rounds = 0;
};

/// Calls them in turns for `seconds`, three rounds at least. A sample has as many calls as last a
/// quarter of a millisecond, behind one that is not timed where calls are short; on a GPU two
/// milliseconds, until the device has computed them.
TurnTimes time_in_turns(const std::vector<std::function<void()>>& calls, double seconds,
                        const Target& target);

}  // namespace heddle::cli
