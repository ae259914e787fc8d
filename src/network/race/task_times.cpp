#include "network/race/task_times.h"

#include <algorithm>
#include <limits>

#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "network/race/timed_network.h"
#include "network/run/output_difference.h"
#include "runtime/race/clearly_faster.h"

namespace heddle::network {
namespace {

// The calls of the network between two measurements. The first ones pay for the pause before them:
// other processes had the core and its caches.
constexpr double kSecondsOfCalls = 0.05;
constexpr int kFewestCalls = 3, kMostCalls = 30;

/// The seconds that the nodes of each task take in a call: medians of calls in a row.
std::vector<double> seconds_by_task(network::TimedNetwork& timed) {
  const Network& network = timed.network();
  std::vector<std::vector<double>> calls(network.tasks().size());
  const Timer timer;
  for (int c = 0; c < kMostCalls; ++c) {
    if (c >= kFewestCalls && timer.elapsed_s() > kSecondsOfCalls) break;
    const network::CallTimes times = timed.call();
    for (std::vector<double>& task : calls) task.push_back(0);
    for (size_t n = 0; n < times.steps.size(); ++n)
      calls[static_cast<size_t>(network.nodes()[n].task)].back() += times.steps[n];
  }
  std::vector<double> medians;
  for (const std::vector<double>& task : calls) medians.push_back(median_of(task));
  return medians;
}

struct Samples {
  std::vector<double> in_network, quotients;
  std::string failure;
};

MeasureResult measured(const TuneTask& task, Measurer& measurer) {
  const TuneClock endless;
  const Schedule schedule = task.tmpl.static_schedule();
  MeasureResult result;
  measurer.measure(task, {&schedule, 1}, std::numeric_limits<double>::infinity(), endless,
                   [&](size_t, const MeasureResult& r) { result = r; });
  return result;
}

}  // namespace

std::vector<TaskTimes> time_tasks(const Network& network, Measurer& measurer, int rounds) {
  const std::vector<TuneTask>& tasks = network.tasks();
  if (tasks.empty()) return {};
  if (tasks[0].tmpl.target().is_cuda() || !network.sizes().empty()) {
    throw_user_error("tasks are compared with calls of networks of one size on CPUs");
  }
  const ScopedThreads threads(std::max(1, tasks[0].tmpl.target().cores));
  const std::vector<Tensor> args = network::call_args(network);
  network::TimedNetwork timed(network, network.static_schedules(), args,
                              network::random_arrays(args));
  const std::vector<TuneTask> to_tune = network.tasks_to_tune();
  std::vector<Samples> samples(tasks.size());
  std::vector<double> before = seconds_by_task(timed);
  for (int round = 0; round < std::max(1, rounds); ++round) {
    for (size_t t = 0; t < tasks.size(); ++t) {
      Samples& own = samples[t];
      if (!own.failure.empty()) continue;
      const MeasureResult result = measured(to_tune[t], measurer);
      std::vector<double> after = seconds_by_task(timed);
      const double around = 0.5 * (before[t] + after[t]);
      before = std::move(after);
      own.in_network.push_back(around / tasks[t].weight);
      if (result.ok()) {
        own.quotients.push_back(result.median() * tasks[t].weight / around);
      } else {
        own.failure = result.message.empty() ? to_string(result.error) : result.message;
      }
    }
  }
  std::vector<TaskTimes> out;
  for (size_t t = 0; t < tasks.size(); ++t) {
    TaskTimes row{tasks[t].name, static_cast<int>(tasks[t].weight), 0, 0, samples[t].failure};
    row.in_network_s = median_of(samples[t].in_network);
    if (row.failure.empty()) row.as_measured_s = row.in_network_s * median_of(samples[t].quotients);
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace heddle::network
