// Ctrl-C while tuning: the first one cancels the clock, the second one ends the process.
#pragma once

#include <csignal>

#include "heddle/measure/measure.h"

namespace heddle::cli {

/// In force until destroyed. The handler does nothing but cancel the clock, and takes itself away,
/// so that the next signal does what it always did.
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
