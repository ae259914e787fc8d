// The times of the schedules of one problem, measured so that they can be compared.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "heddle/measure/measure.h"

namespace heddle::learning {

struct ChoiceTimes {
  /// The time of each schedule in seconds; NaN for a failure. All times are scaled to the state of
  /// the machine when the first schedule was raced.
  std::vector<double> seconds;
  double noise = 0;          ///< relative uncertainty of the leaders' times
  std::string problem = {};  ///< why the first schedule could not be measured, or empty
  bool complete = false;     ///< false where the budget ended; the times are then not valid
};

/// Screens all schedules, each beside the first one, then races the leaders.
ChoiceTimes measure_choices(Measurer& measurer, const TuneTask& task,
                            std::span<const Schedule> schedules, const TuneClock& clock);

}  // namespace heddle::learning
