// Handles Ctrl-C while tuning: the first one cancels the clock, the second one ends the process.
#pragma once

#include <csignal>

#include "heddle/measure/measure.h"

namespace heddle::cli {

/// The exit status of a command that Ctrl-C stopped.
inline constexpr int kInterrupted = 130;

/// In effect until destroyed. The handler only cancels the clock and removes itself, so that the
/// next signal has its default effect.
class InterruptScope {
 public:
  explicit InterruptScope(TuneClock& clock);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  struct sigaction old_interrupt_ = {}, old_terminate_ = {};
};

}  // namespace heddle::cli
