#include "bench/in_turns.h"

#include "heddle/runtime/cuda.h"
#include "heddle/runtime/timer.h"
#include "runtime/race/race.h"

namespace heddle::cli {
namespace {

constexpr double kSampleSeconds = 2e-3;
constexpr int kMostCalls = 1000;

double seconds_of(const std::function<void()>& call, int calls, bool on_gpu) {
  const Timer timer;
  for (int i = 0; i < calls; ++i) call();
  if (on_gpu) cuda::synchronize();
  return timer.elapsed_s() / calls;
}

}  // namespace

TurnTimes time_in_turns(const std::vector<std::function<void()>>& calls, double seconds,
                        const Target& target) {
  std::vector<int> counts;
  for (const std::function<void()>& call : calls) {
    seconds_of(call, 1, target.is_cuda());  // the first call loads code
    const double one = seconds_of(call, 1, target.is_cuda());
    counts.push_back(one * kMostCalls < kSampleSeconds
                         ? kMostCalls
                         : std::max(1, static_cast<int>(kSampleSeconds / one)));
  }
  racing::Field field(calls.size(), {.fewest_rounds = 3, .fewest_racing = 1});
  const Timer clock;
  TurnTimes times;
  times.rounds = racing::run(
      field, [&](size_t i) { return seconds_of(calls[i], counts[i], target.is_cuda()); },
      {.enough = [&](int) { return clock.elapsed_s() > seconds; },
       .decided = [](int) { return false; }});
  times.seconds = field.times();
  return times;
}

}  // namespace heddle::cli
