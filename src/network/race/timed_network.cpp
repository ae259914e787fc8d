#include "network/race/timed_network.h"

#include <algorithm>

#include "heddle/runtime/profile.h"
#include "heddle/runtime/timer.h"
#include "network/run/output_difference.h"
#include "runtime/race/clearly_faster.h"

namespace heddle::network {
namespace {

// The first call after others did something else finds the caches as those left them.
constexpr int kFewestCalls = 3;

}  // namespace

TimedNetwork::TimedNetwork(const Network& network, const std::vector<Schedule>& schedules,
                           const std::vector<Tensor>& args, const std::vector<NDArray>& arrays)
    : network_(network), kernel_(network.build(args, schedules)), given_(arrays), arrays_(arrays) {
  for (const size_t at : kernel_.updated()) arrays_[at] = arrays[at].copy();
  results_ = results_of(kernel_, args, arrays_);
  states_ = StateCopies(kernel_.updated(), arrays_);
  hashes_ = node_hashes(network_);
  of_steps_ = std::make_unique<Program::StepCalls>(kernel_.impl().program, arrays_);
  for (const ProgramStep& step : kernel_.impl().steps())
    steps_.push_back({steps_.size(), &step.variants[0].kernel});
  timer_ = make_call_timer(network_.tasks()[0].tmpl.target(), of_steps_->args(), states_);
  call();
}

TimedNetwork::~TimedNetwork() = default;

CallTimes TimedNetwork::call() { return timer_->time(steps_); }

std::vector<double> TimedNetwork::step_seconds(double seconds) {
  const Timer timer;
  std::vector<std::vector<double>> samples(steps_.size());
  for (int c = 0; c < kFewestCalls || timer.elapsed_s() < seconds; ++c) {
    const CallTimes times = call();
    if (times.steps.empty()) {  // the steps of a GPU's graph have times of their own in a profile
      std::vector<double> steps;
      for (const ProfileRow& row : kernel_.profile(arrays_, seconds).rows)
        steps.push_back(row.in_network_s);
      return steps;
    }
    for (size_t s = 0; s < times.steps.size(); ++s) samples[s].push_back(times.steps[s]);
  }
  std::vector<double> medians;
  for (const std::vector<double>& step : samples) medians.push_back(median_of(step));
  return medians;
}

std::vector<double> TimedNetwork::node_seconds(double seconds) {
  return kernel_.impl().by_node(step_seconds(seconds));
}

std::vector<NDArray> TimedNetwork::outputs() {
  // What another network left in arrays that they share is no result of this one.
  constexpr double kNoResult = 77;
  for (const NDArray& result : results_) result.fill(kNoResult);
  for (const size_t at : kernel_.updated()) arrays_[at].copy_from(given_[at]);
  // Steps that are called one by one have the places of one turn.
  if (network_.loops().empty()) {
    run_once(steps_, of_steps_->args());
  } else {
    kernel_.call(arrays_);
  }
  return host_copies(results_);
}

std::vector<uint64_t> node_hashes(const Network& network) {
  std::vector<uint64_t> of_tasks, hashes;
  for (const TuneTask& task : network.tasks())
    of_tasks.push_back(task.tmpl.dag().structural_hash());
  for (const NetworkNode& node : network.nodes())
    hashes.push_back(of_tasks[static_cast<size_t>(node.task)]);
  return hashes;
}

std::vector<char> nodes_that_differ(const std::vector<uint64_t>& hashes,
                                    const std::vector<uint64_t>& others) {
  std::vector<char> differ;
  for (const uint64_t h : hashes) {
    differ.push_back(std::count(hashes.begin(), hashes.end(), h) !=
                     std::count(others.begin(), others.end(), h));
  }
  return differ;
}

}  // namespace heddle::network
