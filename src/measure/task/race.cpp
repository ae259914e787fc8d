#include "measure/task/race.h"

#include "runtime/race/race.h"

namespace heddle::measuring {

int race_winner(std::span<const MeasureResult> results, double luck) {
  std::vector<std::vector<double>> seconds;
  for (const MeasureResult& r : results)
    seconds.push_back(r.ok() ? r.seconds : std::vector<double>());
  return racing::winner_of(seconds, luck);
}

}  // namespace heddle::measuring
