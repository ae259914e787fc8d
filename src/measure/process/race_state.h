// The state of a race, independent of the device: the remaining candidates and their times.
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "heddle/measure/measure.h"
#include "measure/process/answers.h"

namespace heddle::measuring {

class RaceState {
 public:
  RaceState(std::span<const Schedule> of, const TuneClock& until)
      : schedules(of), clock(until), results(of.size()), racing(of.size(), true) {}

  int task = -1;
  std::span<const Schedule> schedules;
  const TuneClock& clock;
  std::vector<MeasureResult> results;
  std::vector<bool> racing;

  /// Removes the candidate from the race.
  void drop(int64_t candidate, const MeasureResult& why) {
    const auto c = static_cast<size_t>(candidate);
    results.at(c) = why;
    racing.at(c) = false;
  }
  bool over() const { return std::find(racing.begin(), racing.end(), true) == racing.end(); }
  /// Seconds of a part of the race that may take `seconds`, which began with `spent` of them gone.
  double seconds_left(double seconds, double spent) const {
    return std::max(0.0, std::min(seconds, clock.left_s()) - spent);
  }
  /// Adds the times of a round: [[candidate, seconds]...].
  void add_round(const Json& turns) {
    for (const Json& turn : turns.elements()) {
      MeasureResult& r = results[static_cast<size_t>(turn.at(0).as_int())];
      r.seconds.push_back(turn.at(1).as_double());
      r.run_seconds += r.seconds.back();
    }
  }
  /// The results at the end. A candidate without a time counts as cancelled.
  std::vector<MeasureResult> take_results() {
    for (MeasureResult& r : results) {
      if (r.error == MeasureError::None && r.seconds.empty()) r = out_of_time();
    }
    return std::move(results);
  }
};

}  // namespace heddle::measuring
