#include "network/compile_tasks.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <string>
#include <system_error>
#include <thread>

#include "heddle/driver/build.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/support/error.h"
#include "network/task_schedules.h"

namespace heddle::network {
namespace {

TimedBuild compile_task(const Schedule& schedule, size_t task, OnDisk on_disk) {
  return build_timed(
      schedule, task_args(schedule),
      {.name = "network_task" + std::to_string(task), .disk_cache = on_disk == OnDisk::Yes});
}

CompiledTasks summed_up(std::vector<TimedBuild> builds) {
  CompiledTasks all;
  for (TimedBuild& b : builds) {
    all.kernels.push_back(std::move(b.kernel));
    all.report.kernels += 1;
    all.report.from_disk += b.times.cache == CacheAnswer::Found ? 1 : 0;
    all.report.damaged += b.times.cache == CacheAnswer::Damaged ? 1 : 0;
  }
  return all;
}

}  // namespace

// Compiles on separate threads, because kernels would have to wait for the pool for seconds.
CompiledTasks compile_tasks(std::span<const Schedule> schedules, std::span<const size_t> tasks,
                            OnDisk on_disk, FunctionRef<bool()> stop) {
  HEDDLE_ICHECK(schedules.size() == tasks.size(), "a number for each schedule");
  std::vector<TimedBuild> builds(schedules.size());
  std::vector<std::exception_ptr> errors(schedules.size());
  std::atomic<size_t> next{0};
  // Tasks take different times to compile, so a free thread takes the next one.
  const auto work = [&] {
    for (size_t i = next++; i < schedules.size() && !stop(); i = next++) {
      try {
        builds[i] = compile_task(schedules[i], tasks[i], on_disk);
      } catch (...) {
        errors[i] = std::current_exception();
        next = schedules.size();
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    const size_t most = std::min(static_cast<size_t>(num_threads()), schedules.size());
    try {
      while (threads.size() + 1 < most) threads.emplace_back(work);
    } catch (const std::system_error&) {
      // The system allows no more threads, so the existing ones do the work.
    }
    work();
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return summed_up(std::move(builds));
}

}  // namespace heddle::network
