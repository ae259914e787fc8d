#include "network/cut/task_schedules.h"

#include "driver/program_args.h"

namespace heddle::network {

std::vector<Schedule> chosen_schedules(std::span<const TuneTask> tasks) {
  std::vector<Schedule> schedules;
  for (const TuneTask& task : tasks) {
    schedules.push_back(
        create_schedule(task.tmpl.dag().outputs(), task.tmpl.target(), task.tmpl.options()));
  }
  return schedules;
}

std::vector<Tensor> task_args(const Schedule& schedule) {
  return driver::declared_args(schedule.dag().direct());
}

}  // namespace heddle::network
