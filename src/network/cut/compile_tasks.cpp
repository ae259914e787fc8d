#include "network/cut/compile_tasks.h"

#include <string>

#include "driver/lowered_variant.h"
#include "heddle/driver/build.h"
#include "heddle/support/error.h"
#include "network/cut/task_schedules.h"
#include "runtime/pool/for_each_task.h"

namespace heddle::network {
namespace {

TimedBuild compile_task(const Schedule& schedule, size_t task, OnDisk on_disk) {
  const bool keep = on_disk == OnDisk::Yes;
  // Workers gave candidates this name. The code that they left for a GPU is found by its text.
  const std::string name = keep ? "network_task" + std::to_string(task) : "kernel";
  return build_timed(schedule, task_args(schedule), {.name = name, .disk_cache = keep});
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

CompiledTasks compile_tasks(std::span<const Schedule> schedules, std::span<const size_t> tasks,
                            OnDisk on_disk, FunctionRef<bool()> stop) {
  HEDDLE_ICHECK(schedules.size() == tasks.size(), "a number for each schedule");
  std::vector<TimedBuild> builds(schedules.size());
  for_each_task(
      schedules.size(),
      [&](size_t i) { builds[i] = compile_task(schedules[i], tasks[i], on_disk); }, stop);
  return summed_up(std::move(builds));
}

CompiledTasks compile_joined(const NetworkSteps& steps) {
  std::vector<TimedBuild> builds(steps.joined().size());
  for_each_task(builds.size(), [&](size_t j) {
    NetworkSteps::Program joined = steps.program(j);
    builds[j] =
        compile_joined_program(std::make_shared<const GpuProgram>(std::move(joined.program)),
                               steps.gpu(), joined.args, std::move(joined.work));
  });
  return summed_up(std::move(builds));
}

}  // namespace heddle::network
