// heddle profile: shows where the time of a network is spent, and what tuning measures for it.
#include <cmath>
#include <iostream>
#include <vector>

#include "commands.h"
#include "heddle/measure/measure.h"
#include "heddle/network/network.h"
#include "heddle/network/task_times.h"
#include "heddle/runtime/profile.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/support/error.h"
#include "heddle/support/json.h"
#include "heddle/support/table.h"
#include "subjects/model_subject.h"
#include "subjects/target_text.h"

namespace heddle::cli {
namespace {

/// What tuning takes for the time of each task, beside the time of its nodes.
void print_task_times(const std::vector<TaskTimes>& tasks) {
  Table table({"task", "nodes", "in network", "as tuned", "ratio"});
  double in_network = 0, as_measured = 0;
  for (const TaskTimes& task : tasks) {
    if (!task.failure.empty()) {
      table.add_row({task.name, std::to_string(task.nodes), format_time(task.sum_in_network_s()),
                     "not measured", ""});
      continue;
    }
    in_network += task.sum_in_network_s();
    as_measured += task.sum_as_measured_s();
    table.add_row({task.name, std::to_string(task.nodes), format_time(task.sum_in_network_s()),
                   format_time(task.sum_as_measured_s()),
                   format_fixed(task.as_measured_s / task.in_network_s, 2)});
  }
  std::cout << table.to_string();
  for (const TaskTimes& task : tasks) {
    if (!task.failure.empty())
      std::cout << task.name << " could not be measured: " << task.failure << "\n";
  }
  if (in_network <= 0) return;
  const double more = 100 * (as_measured / in_network - 1);
  std::cout << "the tasks as tuning measures them: " << format_time(as_measured) << ", "
            << format_fixed(std::abs(more), 1) << (more < 0 ? " % less" : " % more")
            << " than their nodes in calls of the network in turns with them\n";
}

Json to_json(const std::vector<TaskTimes>& tasks) {
  Json list = Json::array();
  for (const TaskTimes& task : tasks) {
    Json j = Json::object(
        {{"name", task.name}, {"nodes", task.nodes}, {"in_network_s", task.in_network_s}});
    if (task.failure.empty()) j["as_tuned_s"] = task.as_measured_s;
    if (!task.failure.empty()) j["failure"] = task.failure;
    list.push_back(std::move(j));
  }
  return list;
}

}  // namespace

int run_profile(const ProfileOptions& options) {
  const Target target = target_of(options.target, options.threads);
  if (!target.runs_here())
    throw_user_error("kernels for " + to_string(target) + " do not run on this machine");
  if (options.tasks && target.is_cuda())
    throw_user_error("--tasks measures kernels of CPUs", {}, "leave it out for a GPU");
  refuse_ranges(options.subject, "a profile");
  const ScopedThreads threads(target.is_cuda() ? 1 : target.cores);
  const DataType dtype = dtype_of(options.dtype);
  const Problem problem = is_model(options.subject) ? model_problem(options.subject, dtype)
                                                    : make_problem(options.subject, dtype);
  const Network network(problem.outputs, target, current_auto_scheduler_options(),
                        parse_passes(options.passes));
  std::vector<Tensor> args;
  std::vector<NDArray> arrays;
  for (size_t i = 0; i < problem.inputs.size(); ++i) {
    if (problem.inputs[i].op()->data() != nullptr) continue;
    args.push_back(problem.inputs[i]);
    arrays.push_back(problem.make_input(i));
  }
  for (const Tensor& t : problem.outputs) {
    args.push_back(t);
    arrays.push_back(NDArray::zeros(t.extents(), t.dtype()));
  }
  const NetworkKernel kernel = network.build(args, network.static_schedules());
  kernel.call(arrays);
  const Profile profile = kernel.profile(arrays, options.seconds);
  std::vector<TaskTimes> tasks;
  if (options.tasks) tasks = time_tasks(network, *make_worker_measurer());
  if (options.json) {
    Json json = profile.to_json();
    if (options.tasks) json["tasks"] = to_json(tasks);
    std::cout << json.dump(1) << std::endl;
    return 0;
  }
  std::cout << profile;
  if (options.tasks) print_task_times(tasks);
  return 0;
}

}  // namespace heddle::cli
