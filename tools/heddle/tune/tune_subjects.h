// Subjects as tuning tasks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heddle/measure/measure.h"
#include "heddle/network/network.h"
#include "heddle/target/target.h"
#include "tune/task_rows.h"

namespace heddle::cli {

struct TaskList {
  std::vector<TuneTask> tasks;
  std::vector<TaskScale> scales;  ///< one a task, without peaks
  std::vector<double> calls;      ///< one a task
  std::vector<DataType> dtypes;   ///< one a task, of its inputs
  bool networks = false;          ///< some tasks are parts of a network
  /// The network, where it is the only subject: its tasks are those of the list, in order.
  std::optional<Network> network = {};
  std::vector<Dim> dims = {};  ///< of that network, where it is over ranges of sizes

  /// A task that is already in the list gets a larger number of calls instead.
  void add(TuneTask task, TaskScale scale, DataType dtype);
};

/// The tasks of a network that is the only subject.
TaskList tasks_of(const Network& network, DataType dtype);

/// A task for each subject; for a network one for each of its distinct parts.
TaskList tasks_of(const std::vector<Workload>& subjects, const Target& target);

/// "heddle-matmul-512x512x512.jsonl", "heddle-conv2d-c-64-and-3-more.jsonl".
std::string default_log_name(const std::vector<std::string>& subjects);

}  // namespace heddle::cli
