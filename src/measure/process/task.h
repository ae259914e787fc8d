// The tasks that a worker knows, and the messages that tell it of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "measure/messages/answers.h"
#include "measure/messages/requests.h"
#include "measure/task/measured_task.h"

namespace heddle::measuring {

/// The message by which a worker learns of task `id`. With `own`, the worker copies the inputs that
/// it measures with, so that they are ordinary arrays (in huge pages, where there are any); else it
/// maps them.
TaskMessage task_message(int id, const MeasuredTask& task, bool own);

/// The task of such a message, without inputs and reference. Its template has no knobs. Throws a
/// User error for an invalid message.
std::shared_ptr<MeasuredTask> told_task(const TaskMessage& message);

/// The message by which another machine learns of the task. It has no places. It holds the values
/// of inputs that cannot be drawn equally there. Throws a User error where those are too large.
TaskMessage task_message_for_elsewhere(int id, const TuneTask& task);

/// The steps of the static choice.
Json static_choice_of(const TuneTask& task);

/// The tasks that were sent to a worker.
class WorkerTasks {
 public:
  /// `shared_fd` is the descriptor of the SharedMemory to which messages refer; -1: none.
  explicit WorkerTasks(int shared_fd) : shared_fd_(shared_fd) {}

  /// Adds a task. An error in the message is part of the answer.
  Started answer(const TaskMessage& message);
  /// Copies this task's inputs if it needs copies, and frees those of the previous task.
  void hold(int64_t id);
  /// Throws a User error for an unknown task.
  const MeasuredTask& at(int64_t id) const;

 private:
  void add(const TaskMessage& message);

  int shared_fd_;
  int64_t held_ = -1;
  std::map<int64_t, std::shared_ptr<MeasuredTask>> tasks_;
};

/// A schedule of a task, and the arguments of its graph.
struct ReplayedSchedule {
  Schedule schedule;
  std::vector<Tensor> args;
};
/// Replays `steps` (Schedule::to_json) on their graph of the task: the declaration, an alternative
/// from the message, or one that the worker makes itself. Throws a User error for steps that do not
/// apply.
ReplayedSchedule replay_schedule(const MeasuredTask& of, const Json& steps);

}  // namespace heddle::measuring
