// The times of the schedules of one problem, such that they compare.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "heddle/measure/measure.h"

namespace heddle {

struct ChoiceTimes {
  /// By schedule; NaN for what failed. All are for the machine as it was when the first schedule
  /// was raced.
  std::vector<double> seconds;
  double noise = 0;          ///< relative uncertainty of the leaders' times
  std::string problem = {};  ///< why the first schedule could not be measured; empty: it could
  bool complete = false;     ///< false: the clock ended, and the times say nothing
};

/// Screens all schedules, each beside the first one, then races the leaders.
ChoiceTimes measure_choices(Measurer& measurer, const TuneTask& task,
                            std::span<const Schedule> schedules, const TuneClock& clock);

}  // namespace heddle
