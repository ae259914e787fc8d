#include "bench/in_turns.h"

#include "heddle/runtime/cuda.h"
#include "heddle/runtime/timer.h"
#include "runtime/race/race.h"

namespace heddle::cli {
namespace {

// A sample of a CPU is much shorter than the turn of a process on a core, so that most samples contain no other process: samples
// of two milliseconds of a network beside itself had medians that differed by a factor of three on a busy machine. A GPU has no
// such turns, and waiting for it costs some microseconds.
constexpr double kSampleSeconds = 2.5e-4, kSampleSecondsOnGpu = 2e-3;
constexpr double kLongCall = 2e-3;  // which fills caches by itself
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
  const double sample = target.is_cuda() ? kSampleSecondsOnGpu : kSampleSeconds;
  std::vector<int> counts;
  std::vector<bool> warm;
  for (const std::function<void()>& call : calls) {
    seconds_of(call, 1, target.is_cuda());  // the first call loads code
    const double one = seconds_of(call, 1, target.is_cuda());
    counts.push_back(one * kMostCalls < sample ? kMostCalls
                                               : std::max(1, static_cast<int>(sample / one)));
    warm.push_back(one < kLongCall);
  }
  racing::Field field(calls.size(), {.fewest_rounds = 3, .fewest_racing = 1});
  const Timer clock;
  TurnTimes times;
  times.rounds = racing::run(field,
                             [&](size_t i) {
                               if (warm[i])
                                 calls[i]();  // what ran before has left other data in the caches
                               return seconds_of(calls[i], counts[i], target.is_cuda());
                             },
                             {.enough = [&](int) { return clock.elapsed_s() > seconds; },
                              .decided = [](int) { return false; }});
  times.seconds = field.times();
  return times;
}

}  // namespace heddle::cli
