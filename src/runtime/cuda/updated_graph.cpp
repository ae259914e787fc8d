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

/// Writes into the graph of `before` what differs in `record`. Where the driver refuses that, the graph
/// has parameters of both.
bool updated(const DeviceState& d, const DriverGraph& graph, const LaunchRecord& before,
             LaunchRecord& record) {
  for (std::size_t i = 0; i < record.launches().size(); ++i) {
    if (!record.differs(i, before)) continue;
    const LaunchRecord::Launch& l = record.launches()[i];
    std::vector<void*> params = record.params(i);
    api::KernelNodeParams node = l.launcher->node(l.grid, l.block);
    node.params = params.data();
    if (d.api->kernel_node_set(graph.exec(), graph.nodes()[i], &node) != api::kSuccess)
      return false;
  }
  return true;
}

}  // namespace

UpdatedGraphs::Known* UpdatedGraphs::find(const LaunchRecord& record) {
  return known_.find([&](const Known& k) { return k.record.same_kernels(record); });
}

/// Makes the graph of these launches, or writes into it what differs from those that it has, and takes
/// the record over. Launches that were started keep the values that they had. False, and no graph,
/// where the driver does not do that.
bool UpdatedGraphs::hold(DeviceState& d, Known& known, LaunchRecord& record) {
  if (known.updatable && !known.graph) {
    known.graph = std::make_unique<DriverGraph>(d, [&](const Stream& s) {
      launch_each(record, static_cast<api::StreamHandle>(s.handle()));
    });
    known.updatable = are_launches(d, known.graph->nodes(), record);
  } else if (known.updatable) {
    known.updatable = updated(d, *known.graph, known.record, record);
  }
  if (known.updatable) {
    known.record = std::move(record);
  } else {
    known.graph.reset();
  }
  return known.updatable;
}

void UpdatedGraphs::update(DeviceState& d, LaunchRecord record) {
  if (d.api->kernel_node_get == nullptr || d.api->kernel_node_set == nullptr) return;
  Known* known = find(record);
  if (!known) return;
  d.enter();
  hold(d, *known, record);
}

void UpdatedGraphs::run(DeviceState& d, LaunchRecord record) {
  d.enter();
  const Stream stream = Stream::current(d.index);
  const auto handle = static_cast<api::StreamHandle>(stream.handle());
  if (d.api->kernel_node_get == nullptr || d.api->kernel_node_set == nullptr)
    return launch_each(record, handle);
  Known* known = find(record);
  if (!known) {
    launch_each(record, handle);
    known_.add({std::move(record), nullptr});
    return;
  }
  if (!hold(d, *known, record)) return launch_each(record, handle);
  known->graph->launch(stream);
}

}  // namespace heddle::cuda
