#include "network/race/timed_network.h"

#include <algorithm>

#include "network/run/output_difference.h"

namespace heddle::network {

TimedNetwork::TimedNetwork(const Network& network, const std::vector<Schedule>& schedules,
                           const std::vector<Tensor>& args, const std::vector<NDArray>& arrays)
    : network_(network), kernel_(network.build(args, schedules)), arrays_(arrays) {
  hashes_ = node_hashes(network_);
  frame_ =
      std::make_unique<NetworkKernel::Impl::Call>(kernel_.impl(), arrays_, std::vector<int64_t>{});
  for (const Step& step : kernel_.impl().steps) steps_.push_back({steps_.size(), &step.kernels[0]});
  timer_ = make_call_timer(network_.tasks()[0].tmpl.target(), frame_->arrays());
  call();
}

TimedNetwork::~TimedNetwork() = default;

CallTimes TimedNetwork::call() { return timer_->time(steps_); }

std::vector<NDArray> TimedNetwork::outputs() {
  call();
  return host_copies(std::span(arrays_).last(network_.outputs().size()));
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
