#include "network/cut/memory/node_costs.h"

#include <unordered_map>
#include <unordered_set>

#include "network/cut/step_plan.h"

namespace heddle::network {
namespace {

/// The seconds of each node, by the cost of the plan.
std::vector<double> seconds_by(const PlanCost& cost, const std::vector<ExtractedNode>& nodes) {
  std::unordered_map<int, double> by_end;
  for (size_t n = 0; n < cost.which.size(); ++n) by_end[cost.which[n].first] = cost.of_nodes[n];
  std::vector<double> seconds;
  for (const ExtractedNode& node : nodes) {
    // The plan may count no node where one was made, as of what only preparations read.
    const auto known = node.stages.empty() ? by_end.end() : by_end.find(node.stages.back());
    seconds.push_back(known == by_end.end() ? 0 : known->second);
  }
  return seconds;
}

double bytes_of(const std::vector<Tensor>& tensors) {
  double bytes = 0;
  for (const Tensor& t : tensors) {
    double of_one = t.dtype().bytes();
    for (const int64_t e : largest_extents(t)) of_one *= static_cast<double>(e);
    bytes += of_one;
  }
  return bytes;
}

}  // namespace

std::vector<double> seconds_of_nodes(const CutNetwork& network, const Target& target) {
  return seconds_by(cost_of(network.plan, target, network.runs), network.nodes);
}

PlanCost cost_of(const CutNetwork& network, const Target& target) {
  PlanCost cost = cost_of(network.plan, target, network.runs);
  const std::vector<double> seconds = seconds_by(cost, network.nodes);
  std::unordered_set<const Operation*> again;
  for (const auto& [t, first] : network.again) again.insert(t.op());
  for (size_t n = 0; n < network.nodes.size(); ++n) {
    const ExtractedNode& node = network.nodes[n];
    if (!again.contains(node.outputs[0].op())) continue;
    for (const int s : node.stages) {
      const StageInfo& info = network.plan.dag().info(s);
      if (!info.precomputable) cost.flops += info.flops;
    }
    cost.bytes += bytes_of(node.inputs) + bytes_of(node.outputs);
    cost.seconds += seconds[n];
    cost.nodes += 1;
  }
  return cost;
}

}  // namespace heddle::network
