#include "network/cut/network_bytes.h"

#include <algorithm>
#include <set>
#include <utility>

#include "network/cut/kernel_clones.h"

namespace heddle::network {

std::vector<Tensor> weights_of(const Schedule& schedule) {
  const ComputeDag& dag = schedule.dag();
  const auto constant = [&](int s) {
    const Operation& op = dag.stage(s);
    return op.is_placeholder() ? op.is_constant() : dag.info(s).precomputable;
  };
  std::vector<Tensor> weights;
  for (int s = 0; s < dag.size(); ++s) {
    const std::vector<int>& readers = dag.info(s).consumers;
    if (!constant(s) || std::all_of(readers.begin(), readers.end(), constant)) continue;
    for (int o = 0; o < dag.stage(s).num_outputs(); ++o) weights.push_back(dag.stage(s).output(o));
  }
  return weights;
}

int64_t weight_bytes(const Schedule& schedule) {
  int64_t bytes = 0;
  for (const Tensor& t : weights_of(schedule)) bytes += t.size() * t.dtype().bytes();
  return bytes;
}

void set_network_bytes(const std::vector<NetworkNode>& nodes, std::vector<TuneTask>& tasks) {
  // Nodes of one task that read the same weights share the packed ones.
  std::set<std::pair<int, std::vector<const Operation*>>> distinct;
  for (const NetworkNode& node : nodes) distinct.insert({node.task, constants_of(node)});
  int64_t total = 0;
  for (const auto& [task, constants] : distinct)
    total += weight_bytes(tasks[static_cast<size_t>(task)].tmpl.static_schedule());
  for (TuneTask& t : tasks) t.network_bytes = std::max<int64_t>(1, total);
}

}  // namespace heddle::network
