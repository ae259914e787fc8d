// Whether others use the cores of this process, and waiting until they do not.
#pragma once

#include <string>
#include <vector>

#include "heddle/measure/measure.h"

namespace heddle::learning {

/// The share of the time of `cpus` between two texts of /proc/stat in which they were busy; 0 where these do not tell.
double busy_share(const std::string& before, const std::string& after,
                  const std::vector<int>& cpus);

/// Waits while others keep the cores of this process busy, at most so long and not longer than the clock runs. This
/// process has to be idle. Returns the seconds that it waited; 0 where the system does not tell.
double wait_for_quiet(double most_seconds, const TuneClock& clock);

}  // namespace heddle::learning
