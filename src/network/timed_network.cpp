#include "network/timed_network.h"

#include <algorithm>

#include "heddle/runtime/timer.h"

namespace heddle::network {
namespace {

constexpr double kShortCall = 0.05;  // seconds

}  // namespace

TimedNetwork::TimedNetwork(const Network& network, const std::vector<Tensor>& args,
                           const std::vector<NDArray>& arrays)
    : network_(network), kernel_(network.build(args, network.static_schedules())), arrays_(arrays) {
  hashes_ = node_hashes(network_);
  frame_ =
      std::make_unique<NetworkKernel::Impl::Call>(kernel_.impl(), arrays_, std::vector<int64_t>{});
  call();
}

TimedNetwork::~TimedNetwork() = default;

TimedNetwork::Times TimedNetwork::call() {
  Times times;
  const std::vector<Step>& steps = kernel_.impl().steps;
  const auto once = [&] {
    times.nodes.assign(steps.size(), 0);
    const Timer timer;
    double before = 0;
    for (size_t n = 0; n < steps.size(); ++n) {
      steps[n].kernels[0].call(frame_->arrays()[n]);
      const double now = timer.elapsed_s();
      times.nodes[n] = now - before;
      before = now;
    }
    times.total = before;
  };
  if (last_seconds_ < kShortCall) once();
  once();
  last_seconds_ = times.total;
  return times;
}

std::vector<NDArray> TimedNetwork::outputs() {
  call();
  std::vector<NDArray> copies;
  for (size_t i = arrays_.size() - network_.outputs().size(); i < arrays_.size(); ++i)
    copies.push_back(arrays_[i].copy());
  return copies;
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
