// Time as a function, so that measuring code can be tested without waiting.
#pragma once

#include "heddle/runtime/timer.h"

namespace heddle::internal {

/// Seconds of the steady clock since an arbitrary beginning.
double steady_seconds();

/// `measure` with another clock: `now_s` gives seconds that never decrease.
Measurement measure_by(FunctionRef<double()> now_s, FunctionRef<void()> fn, double min_time_s,
                       int max_repeats);

}  // namespace heddle::internal
