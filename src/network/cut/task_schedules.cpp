#include "network/cut/task_schedules.h"

#include "heddle/driver/build.h"

namespace heddle::network {

std::vector<Schedule> static_schedules(std::span<const TuneTask> tasks) {
  std::vector<Schedule> schedules;
  for (const TuneTask& task : tasks) {
    schedules.push_back(
        create_schedule(task.tmpl.dag().outputs(), task.tmpl.target(), task.tmpl.options()));
  }
  return schedules;
}

std::vector<Tensor> task_args(const Schedule& schedule) {
  const ComputeDag& dag = schedule.dag().direct();
  std::vector<Tensor> args = dag.placeholders();
  args.insert(args.end(), dag.outputs().begin(), dag.outputs().end());
  return args;
}

}  // namespace heddle::network
