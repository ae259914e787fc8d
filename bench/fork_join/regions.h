// One parallel region of two or more threads by each runtime. Each has its own source file, because
// gomp's needs -fopenmp.
#pragma once

#include <cstdint>

namespace heddle::bench {

/// Works for `nanoseconds` by the clock. The rest of a region's time is fork and join.
void work_for(std::int64_t nanoseconds);

// Each thread works for `nanoseconds` once.
void heddle_region(int threads, std::int64_t nanoseconds);
void openmp_region(int threads, std::int64_t nanoseconds);
void tbb_region(int threads, std::int64_t nanoseconds);

bool have_openmp();
bool have_tbb();

}  // namespace heddle::bench
