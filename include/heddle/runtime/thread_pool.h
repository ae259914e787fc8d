// The threads that kernels run on.
//
//   set_num_threads(8);                       // for all later calls of the process
//   { ScopedThreads one(1); kernel(a, b); }   // for the calls of this host thread, in this scope
//
// A parallel region forks and joins in half a microsecond. Workers spin for four milliseconds after
// their last job before they park, because waking a parked thread takes 30 to 100 us. All functions
// are thread-safe. Host threads that call at the same time take turns. A parallel region inside
// another one runs serially in the thread that reached it.
//
// On a machine of several NUMA nodes each worker stays on the cores of one node, that of the first
// caller first. Memory that a kernel writes first therefore lies near to the thread that works on
// the same part in later calls. The caller belongs to the user, who keeps it on its node.
#pragma once

#include <cstdint>
#include <exception>

#include "heddle/support/function_ref.h"

extern "C" {

/// Generated code calls this function. It runs `body` over [0, n) in contiguous chunks, one for
/// each thread, whose sizes differ by one at most. Chunk i belongs to the same thread in each call.
/// The caller takes part with chunk 0 and also runs the chunks that no worker has begun in time.
/// `body` must not throw. Returns 0.
int heddle_parallel_for(void (*body)(std::int64_t begin, std::int64_t end, void* context),
                        void* context, std::int64_t n);
}

namespace heddle {

/// The number of physical cores this process may run on (the affinity mask, hyper-threads once).
int default_num_threads();

/// The number of threads that a parallel region of this host thread may use now.
int num_threads();

/// Sets the number of threads of the whole process; 0 restores the default.
void set_num_threads(int n);

/// Pins each worker to a core of its own (off by default). The calling thread belongs to the user
/// and is not pinned; one core is left for it.
void set_thread_pinning(bool on);
/// Whether pinning is on.
bool thread_pinning();

/// Sets the number of threads for this host thread until the end of the scope.
class ScopedThreads {
 public:
  explicit ScopedThreads(int n);
  ~ScopedThreads();
  ScopedThreads(const ScopedThreads&) = delete;
  ScopedThreads& operator=(const ScopedThreads&) = delete;

 private:
  int outer_;
};

/// heddle_parallel_for for C++. body(begin, end) may throw; the first exception is rethrown to the
/// caller.
void parallel_for(std::int64_t n, FunctionRef<void(std::int64_t begin, std::int64_t end)> body);

}  // namespace heddle
