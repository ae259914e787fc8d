// heddle profile: shows where the time of a network is spent, and what tuning measures for it.
#include <cmath>
#include <iostream>
#include <optional>

#include "commands.h"
#include "heddle/measure/measure.h"
#include "heddle/network/network.h"
#include "heddle/runtime/profile.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/support/error.h"
#include "heddle/support/json.h"
#include "heddle/support/table.h"
#include "subjects/model_subject.h"
#include "subjects/target_text.h"

namespace heddle::cli {
namespace {

/// The sum over the nodes of the times that a tuner measures for their tasks' static choices.
/// Nullopt where one of them could not be measured.
std::optional<double> measured_seconds(const Network& network) {
  const auto measurer = make_worker_measurer();
  const TuneClock endless;
  double sum = 0;
  for (const TuneTask& task : network.tasks_to_tune()) {
    MeasureResult result;
    const Schedule schedule = task.tmpl.static_schedule();
    measurer->measure(task, {&schedule, 1}, std::numeric_limits<double>::infinity(), endless,
                      [&](size_t, const MeasureResult& r) { result = r; });
    if (!result.ok()) return std::nullopt;
    sum += task.weight * result.median();
  }
  return sum;
}

double nodes_seconds(const Profile& profile) {
  double sum = 0;
  for (const ProfileRow& row : profile.rows) sum += row.in_network_s;
  return sum;
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
  std::optional<double> tasks;
  if (options.tasks) tasks = measured_seconds(network);
  const double nodes = nodes_seconds(profile);
  if (options.json) {
    Json json = profile.to_json();
    if (tasks) json["tasks_s"] = Json(*tasks);
    std::cout << json.dump(1) << std::endl;
    return 0;
  }
  std::cout << profile;
  if (tasks) {
    const double more = 100 * (*tasks / nodes - 1);
    std::cout << "the tasks as tuning measures them: " << format_time(*tasks) << ", "
              << format_fixed(std::abs(more), 1) << (more < 0 ? " % less" : " % more")
              << " than the nodes in the network\n";
  } else if (options.tasks) {
    std::cout << "the tasks could not all be measured\n";
  }
  return 0;
}

}  // namespace heddle::cli
