// Time as a function, so that what measures can be tested without waiting.
#pragma once

#include "heddle/runtime/timer.h"

namespace heddle::internal {

/// Seconds of the steady clock, from some beginning.
double steady_seconds();

/// `measure` by another clock: `now_s` gives seconds, and never goes back.
Measurement measure_by(FunctionRef<double()> now_s, FunctionRef<void()> fn, double min_time_s,
                       int max_repeats);

}  // namespace heddle::internal
