#include "tune/interrupt.h"

#include <atomic>

namespace heddle::cli {
namespace {

// The clock that the handler cancels. A signal handler can only access globals.
std::atomic<TuneClock*> cancelled_by_signal{nullptr};

void cancel_clock(int) {
  if (TuneClock* clock = cancelled_by_signal.load()) clock->cancel();
}

}  // namespace

InterruptScope::InterruptScope(TuneClock& clock) {
  cancelled_by_signal = &clock;
  struct sigaction action = {};
  action.sa_handler = cancel_clock;
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &old_interrupt_);
  sigaction(SIGTERM, &action, &old_terminate_);
}

InterruptScope::~InterruptScope() {
  sigaction(SIGINT, &old_interrupt_, nullptr);
  sigaction(SIGTERM, &old_terminate_, nullptr);
  cancelled_by_signal = nullptr;
}

}  // namespace heddle::cli
