#include "network/sizes/total_size_race.h"

#include <algorithm>

#include "heddle/runtime/timer.h"
#include "network/race/race_rounds.h"

namespace heddle::network {
namespace {

constexpr double kLeastSeconds = 1e-8;  // of a task: below it nothing is seen

/// Seconds of a call where the tasks run the candidates `used`.
using TimeCall = FunctionRef<double(const std::vector<size_t>& used, bool twice)>;

/// Those of the candidates of one task. With `twice` a call runs its nodes twice.
std::vector<double> race_task(size_t t, size_t count, std::vector<size_t> used, double seconds,
                              TimeCall call) {
  // The last entrant runs the first candidate twice.
  racing::Rules rules = kSizeRules;
  rules.hopeless = kUnknown;  // by the times of the task, not of the calls
  racing::Field field(count + 1, rules);
  const auto sample = [&](size_t c) {
    used[t] = c == count ? 0 : c;
    return call(used, c == count);
  };
  std::vector<double> own(count);
  const auto look = [&](int) {
    const double first = std::max(field.time(count) - field.time(0), kLeastSeconds);
    for (size_t c = 0; c < count; ++c)
      own[c] = std::max(first + field.time(c) - field.time(0), kLeastSeconds);
    const double best = *std::min_element(own.begin(), own.end());
    for (size_t c = 1; c < count; ++c) {
      if (own[c] > kSizeRules.hopeless * best) field.drop(c, racing::Out::Slower);
    }
    return false;
  };
  const Timer clock;
  racing::run(field, sample,
              {.enough = [&](int) { return clock.elapsed_s() > seconds; }, .decided = look});
  return own;
}

}  // namespace

std::vector<std::vector<double>> race_totals_at_size(const std::vector<NetworkNode>& nodes,
                                                     const std::vector<ProgramStep>& steps,
                                                     const std::vector<size_t>& counts,
                                                     CallTimer& timer, double seconds) {
  const auto several = std::count_if(counts.begin(), counts.end(), [](size_t n) { return n > 0; });
  const double of_task = seconds / static_cast<double>(std::max<std::ptrdiff_t>(1, several));
  std::vector<size_t> used(counts.size(), 0);
  std::vector<std::vector<double>> times;
  for (size_t t = 0; t < counts.size(); ++t) {
    times.emplace_back();
    if (counts[t] == 0) continue;
    const auto call = [&](const std::vector<size_t>& with, bool twice) {
      std::vector<StepCall> parts;
      for (size_t n = 0; n < steps.size(); ++n) {
        const auto task = static_cast<size_t>(nodes[n].task);
        parts.insert(parts.end(), twice && task == t ? 2 : 1,
                     {n, &steps[n].variants[with[task]].kernel});
      }
      return timer.time(parts).total;
    };
    times[t] = race_task(t, counts[t], used, of_task, call);
    used[t] =
        static_cast<size_t>(std::min_element(times[t].begin(), times[t].end()) - times[t].begin());
  }
  return times;
}

}  // namespace heddle::network
