#include "regions.h"

#ifdef HEDDLE_HAVE_TBB
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>
#endif

namespace heddle::bench {

#ifdef HEDDLE_HAVE_TBB
bool have_tbb() { return true; }
void tbb_region(int threads, std::int64_t nanoseconds) {
  static tbb::task_arena arena(
      threads);  // the caller stays in the arena, as in a program that uses one
  // A static partition has one chunk for each thread, which is the cheapest form of TBB.
  arena.execute([&] {
    tbb::parallel_for(0, threads, [&](int) { work_for(nanoseconds); }, tbb::static_partitioner{});
  });
}
#else
bool have_tbb() { return false; }
void tbb_region(int, std::int64_t) {}
#endif

}  // namespace heddle::bench
