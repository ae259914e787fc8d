// A task on its way to a worker, and the tasks that a worker knows.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "measure/measured_task.h"

namespace heddle::measuring {

/// The message by which a worker learns of task `id`. `own`: it makes copies of the inputs that it
/// measures with, which then lie as arrays do everywhere (in huge pages, where there are any); else
/// it maps them. A message with `inputs: false` is for a worker that only compiles.
Json task_message(int id, const MeasuredTask& task, bool own);

/// The task of such a message, without inputs and reference. Its template has no knobs. Throws a
/// User error for what is none.
std::shared_ptr<MeasuredTask> told_task(const Json& message);

/// The message that another machine learns of the task by: it says no places, and has the values of
/// inputs that are not drawn there just as here. Throws a User error where those are too large.
Json task_message_for_elsewhere(int id, const TuneTask& task);

/// What a worker was told of.
class WorkerTasks {
 public:
  /// `shared_fd`: of the SharedMemory that messages speak of; -1: of none.
  explicit WorkerTasks(int shared_fd) : shared_fd_(shared_fd) {}

  /// Takes a task in; what is wrong with it is in the answer.
  Json answer(const Json& message);
  void drop(int64_t id) { tasks_.erase(id); }
  /// Makes copies of this task's inputs if it is to have any, and gives back those of another.
  void hold(int64_t id);
  /// Throws a User error for one that it was not told of.
  const MeasuredTask& at(int64_t id) const;

 private:
  void add(const Json& message);

  int shared_fd_;
  int64_t held_ = -1;
  std::map<int64_t, std::shared_ptr<MeasuredTask>> tasks_;
};

/// A schedule of a task, and the arguments that are those of its graph.
struct ReplayedSchedule {
  Schedule schedule;
  std::vector<Tensor> args;
};
/// `steps` (Schedule::to_json) on the graph of the task that they are of: the declaration, an
/// alternative that the worker was told of, or one that it makes itself. Throws a User error for
/// what does not apply.
ReplayedSchedule replay_schedule(const MeasuredTask& of, const Json& steps);

}  // namespace heddle::measuring
