// heddle profile: shows where the time of a network is spent, and what tuning measures for it.
#include <cmath>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "commands.h"
#include "common/network_here.h"
#include "common/run_sizes.h"
#include "heddle/dag/instance.h"
#include "heddle/measure/measure.h"
#include "heddle/network/network.h"
#include "heddle/runtime/profile.h"
#include "heddle/support/error.h"
#include "heddle/support/json.h"
#include "network/race/task_times.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

/// What tuning takes for the time of each task, beside the time of its nodes.
void print_task_times(const std::vector<network::TaskTimes>& tasks) {
  Table table({"task", "nodes", "in network", "as tuned", "ratio"});
  double in_network = 0, as_measured = 0;
  for (const network::TaskTimes& task : tasks) {
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
  for (const network::TaskTimes& task : tasks) {
    if (!task.failure.empty())
      std::cout << task.name << " could not be measured: " << task.failure << "\n";
  }
  if (in_network <= 0) return;
  const double more = 100 * (as_measured / in_network - 1);
  std::cout << "the tasks as tuning measures them: " << format_time(as_measured) << ", "
            << format_fixed(std::abs(more), 1) << (more < 0 ? " % less" : " % more")
            << " than their nodes in calls of the network in turns with them\n";
}

Json to_json(const std::vector<network::TaskTimes>& tasks) {
  Json list = Json::array();
  for (const network::TaskTimes& task : tasks) {
    Json j = Json::object(
        {{"name", task.name}, {"nodes", task.nodes}, {"in_network_s", task.in_network_s}});
    if (task.failure.empty()) j["as_tuned_s"] = task.as_measured_s;
    if (!task.failure.empty()) j["failure"] = task.failure;
    list.push_back(std::move(j));
  }
  return list;
}

/// A profile at the sizes that `sizes` says in words; empty for constant extents.
struct SizedProfile {
  std::string sizes;
  Profile profile;
};

/// The values of the dimensions, and "seq = 17" for people.
std::pair<std::vector<SizeValue>, std::string> values_at(const std::vector<Dim>& dims,
                                                         const std::vector<int64_t>& sizes) {
  std::vector<SizeValue> at;
  std::string text;
  for (size_t i = 0; i < dims.size(); ++i) {
    at.emplace_back(dims[i], sizes[i]);
    text += (i ? ", " : "") + dims[i].name() + " = " + std::to_string(sizes[i]);
  }
  return {at, text};
}

/// Builds the network once, and profiles calls at each of the sizes.
std::vector<SizedProfile> profiles_of(const Network& network, const Problem& problem,
                                      const Request& options) {
  std::vector<Tensor> args;
  for (const Tensor& t : problem.inputs) {
    if (t.op()->data() == nullptr) args.push_back(t);
  }
  const size_t inputs = args.size();
  args.insert(args.end(), problem.outputs.begin(), problem.outputs.end());
  const NetworkKernel kernel = network.build(args);
  std::vector<std::vector<int64_t>> runs = {{}};
  if (!problem.dims.empty()) runs = run_sizes(options.sizes, problem.dims);
  std::vector<SizedProfile> all;
  for (const std::vector<int64_t>& sizes : runs) {
    const auto [at, text] = values_at(problem.dims, sizes);
    const std::vector<Tensor> here = at_sizes(args, at).outputs;
    std::vector<NDArray> arrays;
    for (size_t i = 0; i < args.size(); ++i) {
      arrays.push_back(i < inputs ? NDArray::random(here[i].extents(), here[i].dtype(), i + 1)
                                  : NDArray::zeros(here[i].extents(), here[i].dtype()));
    }
    kernel.call(arrays);
    all.push_back({text, kernel.profile(arrays, options.seconds)});
  }
  return all;
}

/// That of a network of constant extents, or a list with one for each size.
Json to_json(const std::vector<SizedProfile>& profiles) {
  if (profiles[0].sizes.empty()) return profiles[0].profile.to_json();
  Json list = Json::array();
  for (const SizedProfile& p : profiles) {
    Json j = p.profile.to_json();
    j["sizes"] = p.sizes;
    list.push_back(std::move(j));
  }
  return list;
}

void check(const Request& options, const Target& target, const Problem& problem) {
  if (options.tasks && target.is_cuda())
    throw_user_error("--tasks measures kernels of CPUs", {}, "leave it out for a GPU");
  if (options.tasks && !problem.dims.empty())
    throw_user_error("--tasks measures a network of one size", {},
                     "give its dimensions one size each, or leave it out");
}

}  // namespace

int run_profile(const Request& options) {
  const NetworkHere here(options);
  check(options, here.target, here.problem);
  const Network network = here.network();
  const std::vector<SizedProfile> profiles = profiles_of(network, here.problem, options);
  std::vector<network::TaskTimes> tasks;
  if (options.tasks) tasks = network::time_tasks(network, *make_worker_measurer());
  if (options.json) {
    Json json = to_json(profiles);
    if (options.tasks) json["tasks"] = to_json(tasks);
    std::cout << json.dump(1) << std::endl;
    return 0;
  }
  for (const SizedProfile& p : profiles) {
    if (!p.sizes.empty()) std::cout << "at " << p.sizes << ":\n";
    std::cout << p.profile;
  }
  if (options.tasks) print_task_times(tasks);
  return 0;
}

}  // namespace heddle::cli
