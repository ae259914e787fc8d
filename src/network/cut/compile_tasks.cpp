#include "network/cut/compile_tasks.h"

#include <string>

#include "driver/lowered_variant.h"
#include "heddle/driver/build.h"
#include "heddle/support/error.h"
#include "network/cut/task_schedules.h"
#include "runtime/pool/for_each_task.h"

namespace heddle::network {
namespace {

struct Compiled {
  TimedBuild build;
  std::vector<Var> sizes;
};

Compiled compile_task(const Schedule& schedule, size_t task, OnDisk on_disk) {
  const bool keep = on_disk == OnDisk::Yes;
  // Workers gave candidates this name. The code that they left for a GPU is found by its text.
  const BuildOptions options{.name = keep ? "network_task" + std::to_string(task) : "kernel",
                             .disk_cache = keep};
  const std::vector<Tensor> args = task_args(schedule);
  const driver::LoweredVariant lowered = driver::lower_variant(schedule, args, args, options);
  return {driver::compile_variant(lowered, options),
          lowered.gpu ? lowered.gpu->sizes : lowered.cpu->main.sizes};
}

CompiledTasks summed_up(std::vector<Compiled> all) {
  CompiledTasks made;
  for (Compiled& c : all) {
    made.kernels.push_back(std::move(c.build.kernel));
    made.sizes.push_back(std::move(c.sizes));
    const CacheAnswer cache = c.build.times.cache;
    made.report.kernels += 1;
    made.report.from_disk += cache == CacheAnswer::Found ? 1 : 0;
    made.report.damaged += cache == CacheAnswer::Damaged ? 1 : 0;
  }
  return made;
}

}  // namespace

CompiledTasks compile_tasks(std::span<const Schedule> schedules, std::span<const size_t> tasks,
                            OnDisk on_disk, FunctionRef<bool()> stop) {
  HEDDLE_ICHECK(schedules.size() == tasks.size(), "a number for each schedule");
  std::vector<Compiled> builds(schedules.size());
  for_each_task(
      schedules.size(),
      [&](size_t i) { builds[i] = compile_task(schedules[i], tasks[i], on_disk); }, stop);
  return summed_up(std::move(builds));
}

CompiledTasks compile_joined(const NetworkSteps& steps) {
  std::vector<Compiled> builds(steps.joined_kernels());
  for_each_task(builds.size(), [&](size_t k) {
    NetworkSteps::Program joined = steps.program(k);
    builds[k].sizes = joined.program.sizes;
    builds[k].build = driver::compile_joined_program(
        std::make_shared<const GpuProgram>(std::move(joined.program)), steps.gpu(), joined.args,
        std::move(joined.work));
  });
  return summed_up(std::move(builds));
}

}  // namespace heddle::network
