// The state of a race that is running.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "heddle/measure/measure.h"
#include "measure/messages/requests.h"
#include "runtime/race/race.h"

namespace heddle::measuring {

struct Race {
  Race(std::span<const Schedule> of, const TuneClock& until, uint64_t seed)
      : schedules(of),
        clock(until),
        results(of.size()),
        code(of.size()),
        compiled(of.size()),
        field(of.size(), {.fewest_racing = 1, .seed = seed}) {}

  int task = -1;
  std::span<const Schedule> schedules;
  const TuneClock& clock;
  std::vector<MeasureResult> results;       ///< why candidates left, and seconds of compiling
  std::vector<std::optional<CodeOf>> code;  ///< where it travels to the runner
  std::vector<bool> compiled;
  racing::Field field;
  bool started = false;  ///< all candidates that race have entered, and the runner is warm
  bool expired = false;  ///< the clock expired during a request

  bool races(size_t candidate) const { return field.out(candidate) == racing::Out::No; }
  bool over() const { return expired || field.racing().empty(); }
  /// Removes the candidate from the race.
  void drop(size_t candidate, const MeasureResult& why) {
    results.at(candidate) = why;
    field.drop(candidate, racing::Out::Failed);
  }
  /// The results at the end. A candidate without a time counts as cancelled.
  std::vector<MeasureResult> take_results();
};

}  // namespace heddle::measuring
