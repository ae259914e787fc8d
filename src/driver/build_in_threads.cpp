#include "driver/build_in_threads.h"

#include "heddle/runtime/thread_pool.h"

namespace heddle {

std::vector<Built> build_in_threads(const std::vector<Schedule>& schedules,
                                    const std::vector<Tensor>& args, const BuildOptions& options) {
  std::vector<Built> built(schedules.size());
  const auto work = [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      try {
        built[i].kernel = build(schedules[i], args, options);
      } catch (...) {
        built[i].error = std::current_exception();
      }
    }
  };
  const auto count = static_cast<std::int64_t>(built.size());
  if (count > 0 && schedules[0].target().is_cuda()) {
    parallel_for(count, work);
  } else {
    work(0, count);
  }
  return built;
}

}  // namespace heddle
