#include "runtime/pool/for_each_task.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

#include "heddle/runtime/thread_pool.h"

namespace heddle {

// Runs on separate threads, because such work on the pool would keep kernels waiting for seconds.
void for_each_task(size_t count, FunctionRef<void(size_t)> work, FunctionRef<bool()> stop) {
  std::vector<std::exception_ptr> errors(count);
  std::atomic<size_t> next{0};
  // A free thread takes the next one.
  const auto run = [&] {
    for (size_t i = next++; i < count && !stop(); i = next++) {
      try {
        work(i);
      } catch (...) {
        errors[i] = std::current_exception();
        next = count;
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    const size_t most = std::min(static_cast<size_t>(num_threads()), count);
    try {
      while (threads.size() + 1 < most) threads.emplace_back(run);
    } catch (const std::system_error&) {
      // The system allows no more threads, so the existing ones do the work.
    }
    run();
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace heddle
