// Where a whole network is timed when its tasks are measured by a fleet.
#pragma once

#include <string>

#include "heddle/target/target.h"

namespace heddle::cli {

struct NetworkRacePlace {
  bool here = true;   ///< on this machine; else each task is raced by itself, on one device
  std::string words;  ///< for people; empty without a fleet
};

/// A whole network runs in this process, so that it is timed here where this machine is of the kind
/// that the fleet measures for: the same chip, with at least as many threads, or the same GPU. A
/// machine of another kind is never asked.
NetworkRacePlace network_race_place(const Target& target, bool fleet);

}  // namespace heddle::cli
