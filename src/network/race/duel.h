// The last race of a network: all that was changed against the network as it was.
#pragma once

#include "heddle/search/tune.h"
#include "runtime/race/race.h"

namespace heddle::network {

/// Times calls of the network as it was (0) and with the changes (1), and notes their medians, the
/// number of rounds and the verdict: Faster or NotProven.
NetworkTimes duel(FunctionRef<double(size_t)> call, int most_rounds, uint64_t seed,
                  const racing::Ends& ends);

}  // namespace heddle::network
