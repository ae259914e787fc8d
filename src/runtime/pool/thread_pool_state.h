// The state of the threads of the pool, for tests that wait until they sleep.
#pragma once

namespace heddle::internal {

struct WorkerCounts {
  int workers = 0;  ///< threads of the pool, without the callers
  int parked = 0;   ///< of these, those that sleep until they are called
};
/// Waits for the current region. It must not be called inside of one.
WorkerCounts count_workers();

/// Whether the caller of the current region sleeps until its workers have finished.
bool caller_is_parked();

}  // namespace heddle::internal
