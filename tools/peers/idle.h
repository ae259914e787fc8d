// Waits until the other threads of this process have gone to sleep.
#pragma once

namespace heddle::peers {

// The threads of this process that run or want to, without the caller; 0 where the system does not
// tell (no /proc).
int other_running_threads();

// Sleeps a millisecond at a time until no other thread of this process runs, at most this long.
// Idle workers spin for a while after a call and take a core from the next case: gomp's for 2 to 8
// ms, OpenBLAS's for up to 25 ms, Heddle's for 1 ms. Returns true when all sleep.
bool wait_until_idle(double at_most_seconds);

}  // namespace heddle::peers
