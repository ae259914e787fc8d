// Graphs inside nodes, and the names that they read from around them.
#include <algorithm>
#include <unordered_set>

#include "onnx/file/graph.h"

namespace heddle::onnx {

std::vector<Subgraph> graphs_in(const Node& node) {
  std::vector<Subgraph> graphs;
  for (const auto& [name, attribute] : node.attributes) {
    if (const auto* graph = std::get_if<Subgraph>(&attribute.value)) graphs.push_back(*graph);
  }
  return graphs;
}

namespace {

void add_captured(const Graph& graph, std::set<std::string>& captured) {
  std::unordered_set<std::string> made;
  for (const ValueInfo& input : graph.inputs) made.insert(input.name);
  for (const auto& [name, array] : graph.initializers) made.insert(name);
  for (const Node& node : graph.nodes) made.insert(node.outputs.begin(), node.outputs.end());
  const auto read = [&](const std::string& name) {
    if (!name.empty() && made.count(name) == 0) captured.insert(name);
  };
  for (const Node& node : graph.nodes) {
    for (const std::string& name : node.inputs) read(name);
    for (const std::string& name : captured_names(node)) read(name);
  }
  for (const ValueInfo& output : graph.outputs) read(output.name);
}

}  // namespace

std::set<std::string> captured_names(const Node& node) {
  std::set<std::string> captured;
  for (const Subgraph& graph : graphs_in(node)) add_captured(*graph, captured);
  return captured;
}

std::vector<const Node*> needed_nodes(const Graph& graph) {
  std::unordered_set<std::string> wanted;
  for (const ValueInfo& output : graph.outputs) wanted.insert(output.name);
  std::vector<const Node*> needed;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    const bool used = std::any_of(node->outputs.begin(), node->outputs.end(),
                                  [&](const std::string& o) { return wanted.count(o) > 0; });
    if (!used) continue;
    wanted.insert(node->inputs.begin(), node->inputs.end());
    const std::set<std::string> captured = captured_names(*node);
    wanted.insert(captured.begin(), captured.end());
    needed.push_back(&*node);
  }
  std::reverse(needed.begin(), needed.end());
  return needed;
}

}  // namespace heddle::onnx
