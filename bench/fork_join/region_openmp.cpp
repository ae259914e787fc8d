#include "regions.h"

namespace heddle::bench {

#ifdef _OPENMP
bool have_openmp() { return true; }
void openmp_region(int threads, std::int64_t nanoseconds) {
#pragma omp parallel num_threads(threads)
  work_for(nanoseconds);
}
#else
bool have_openmp() { return false; }
void openmp_region(int, std::int64_t) {}
#endif

}  // namespace heddle::bench
