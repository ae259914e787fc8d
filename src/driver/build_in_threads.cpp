#include "driver/build_in_threads.h"

#include <algorithm>
#include <atomic>
#include <thread>

namespace heddle {

std::vector<Built> build_in_threads(const std::vector<Schedule>& schedules,
                                    const std::vector<Tensor>& args, const BuildOptions& options) {
  std::vector<Built> built(schedules.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < schedules.size(); i = next++) {
      try {
        built[i].kernel = build(schedules[i], args, options);
      } catch (...) {
        built[i].error = std::current_exception();
      }
    }
  };
  const bool gpu = !schedules.empty() && schedules[0].target().is_cuda();
  const size_t count =
      gpu ? std::min<size_t>(std::thread::hardware_concurrency(), built.size()) : 1;
  std::vector<std::thread> others;
  for (size_t t = 1; t < count; ++t) others.emplace_back(work);
  work();
  for (std::thread& t : others) t.join();
  return built;
}

}  // namespace heddle
