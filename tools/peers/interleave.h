// Times several functions in interleaved rounds, so that a change of the machine's state (clock,
// another load) affects all of them equally.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace heddle::peers {

struct TimedCase {
  std::string name;
  std::function<void()> run;
};

struct InterleaveOptions {
  double min_sample_seconds = 2e-3;  // a sample repeats the call until it lasts about this long
  int min_rounds = 7;                // taken even when that goes past the time cap
  int max_rounds = 201;
  double time_cap_seconds = 2.0;  // for the whole list, pauses included
  // Before a sample, wait until the threads of whoever had the last turn sleep, at most this long,
  // then call untimed for two milliseconds: every case begins with all cores free, its own
  // workers awake and its caches warm. Calls that last longer than kLongCallSeconds go without.
  double settle_seconds = 40e-3;
};
inline constexpr double kLongCallSeconds = 0.1;

struct CaseTimes {
  std::string name;
  double median_seconds = 0;  // a call
  double min_seconds = 0;     // a call, in the best sample
  int samples = 0;
  int calls_per_sample = 0;
};

// Results come in the order of the cases. Each function is first called untimed.
std::vector<CaseTimes> time_interleaved(const std::vector<TimedCase>& cases,
                                        const InterleaveOptions& options = {});

}  // namespace heddle::peers
