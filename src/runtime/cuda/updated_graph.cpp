#include "runtime/cuda/updated_graph.h"

#include <algorithm>

#include "runtime/cuda/capture.h"

namespace heddle::cuda {
namespace {

void launch_each(LaunchRecord& record, api::StreamHandle stream) {
  for (std::size_t i = 0; i < record.launches().size(); ++i) {
    const LaunchRecord::Launch& l = record.launches()[i];
    l.launcher->launch(l.grid, l.block, record.params(i).data(), stream);
  }
}

/// Whether the nodes of a graph are the launches, in their order. The driver lists nodes in the order in
/// which they were recorded, but does not promise it.
bool are_launches(const DeviceState& d, const std::vector<api::GraphNode>& nodes,
                  const LaunchRecord& record) {
  if (nodes.size() != record.launches().size()) return false;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const LaunchRecord::Launch& l = record.launches()[i];
    api::KernelNodeParams node;
    if (d.api->kernel_node_get(nodes[i], &node) != api::kSuccess) return false;
    if (node.function != l.launcher->function() || !std::ranges::equal(node.grid, l.grid))
      return false;
  }
  return true;
}

}  // namespace

void UpdatedGraphs::run(DeviceState& d, LaunchRecord record) {
  d.enter();
  const Stream stream = Stream::current(d.index);
  const auto handle = static_cast<api::StreamHandle>(stream.handle());
  if (d.api->kernel_node_get == nullptr || d.api->kernel_node_set == nullptr)
    return launch_each(record, handle);
  const auto at =
      std::ranges::find_if(known_, [&](const Known& k) { return k.record.same_kernels(record); });
  if (at == known_.end()) {
    launch_each(record, handle);
    known_.insert(known_.begin(), Known{std::move(record), nullptr});
    if (known_.size() > kMost) known_.pop_back();
    return;
  }
  std::rotate(known_.begin(), at, at + 1);
  Known& known = known_.front();
  if (!known.updatable) return launch_each(record, handle);
  if (!known.graph) {
    auto graph = std::make_unique<DriverGraph>(d, [&](const Stream& s) {
      launch_each(record, static_cast<api::StreamHandle>(s.handle()));
    });
    known.updatable = are_launches(d, graph->nodes(), record);
    if (!known.updatable) return launch_each(record, handle);
    known.graph = std::move(graph);
  } else {
    for (std::size_t i = 0; i < record.launches().size(); ++i) {
      if (!record.differs(i, known.record)) continue;
      const LaunchRecord::Launch& l = record.launches()[i];
      std::vector<void*> params = record.params(i);
      api::KernelNodeParams node = l.launcher->node(l.grid, l.block);
      node.params = params.data();
      d.check(d.api->kernel_node_set(known.graph->exec(), known.graph->nodes()[i], &node),
              "cuGraphExecKernelNodeSetParams");
    }
  }
  known.record = std::move(record);
  known.graph->launch(stream);
}

}  // namespace heddle::cuda
