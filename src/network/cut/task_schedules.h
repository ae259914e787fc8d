// The schedules of a network's tasks, and the arguments for which they are compiled.
#pragma once

#include <span>
#include <vector>

#include "heddle/network/network.h"

namespace heddle::network {

/// What create_schedule chooses for each task: a record, or the static choice.
std::vector<Schedule> chosen_schedules(std::span<const TuneTask> tasks);

/// The arguments of a task's kernel: the inputs, then the outputs, of the task as declared. They
/// correspond by position to those of its nodes, whatever graph the schedule is for.
std::vector<Tensor> task_args(const Schedule& schedule);

}  // namespace heddle::network
