// What the threads of the pool do now. For tests: to wait until they sleep, in place of a time that
// is hoped to be long enough.
#pragma once

namespace heddle::internal {

struct WorkerCounts {
  int workers = 0;  ///< threads of the pool, without the callers
  int parked = 0;   ///< of these, those that sleep until they are called
};
/// Waits for the region that is under way; not to be asked from inside of one.
WorkerCounts count_workers();

/// Does the caller of the region that is under way sleep until its workers are done?
bool caller_is_parked();

}  // namespace heddle::internal
