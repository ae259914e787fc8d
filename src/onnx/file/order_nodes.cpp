// Puts nodes in an order in which they can be declared.
#include <set>
#include <unordered_map>
#include <utility>

#include "heddle/support/error.h"
#include "onnx/file/graph.h"

namespace heddle::onnx {
namespace {

using Makers = std::unordered_map<std::string, size_t>;
constexpr size_t kGiven = static_cast<size_t>(-1);  // an input or an initialiser

Makers makers_of(const Graph& graph) {
  Makers makers;
  for (const auto& [name, array] : graph.initializers) makers[name] = kGiven;
  for (const ValueInfo& input : graph.inputs) {
    if (!makers.emplace(input.name, kGiven).second)
      throw_user_error("there are two inputs called '" + input.name + "'");
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const std::string& output : graph.nodes[n].outputs) {
      if (output.empty() || makers.emplace(output, n).second) continue;
      const size_t other = makers[output];
      throw_user_error("'" + output + "' is made by " + graph.nodes[n].describe() + " and by " +
                       (other == kGiven ? "an input or initialiser of that name"
                                        : graph.nodes[other].describe()));
    }
  }
  return makers;
}

/// The names that a node reads, those of the graphs inside it included.
std::set<std::string> names_read(const Node& node) {
  std::set<std::string> names = captured_names(node);
  names.insert(node.inputs.begin(), node.inputs.end());
  return names;
}

void check_all_made(const Graph& graph, const Makers& makers) {
  for (const Node& node : graph.nodes) {
    for (const std::string& input : names_read(node)) {
      if (!input.empty() && !makers.count(input))
        throw_user_error(node.describe() + " reads '" + input +
                         "', which is no input, no initialiser and no output of a node");
    }
  }
  for (const ValueInfo& output : graph.outputs) {
    if (!makers.count(output.name))
      throw_user_error("nothing makes the output '" + output.name + "'");
  }
}

void order(Graph& graph, const Makers& makers);

/// The same node with its graphs in order. What they do not make is given.
Node with_ordered_graphs(Node node) {
  for (auto& [name, attribute] : node.attributes) {
    const auto* inner = std::get_if<Subgraph>(&attribute.value);
    if (inner == nullptr) continue;
    const auto ordered = std::make_shared<Graph>(**inner);
    order(*ordered, makers_of(*ordered));
    attribute.value = Subgraph(ordered);
  }
  return node;
}

// Kahn's algorithm. Of the nodes that are ready, the first in the file comes first.
void order(Graph& graph, const Makers& makers) {
  const size_t count = graph.nodes.size();
  std::vector<size_t> waiting(count, 0);
  std::vector<std::vector<size_t>> readers(count);
  std::set<size_t> ready;
  for (size_t n = 0; n < count; ++n) {
    for (const std::string& input : names_read(graph.nodes[n])) {
      const auto maker = makers.find(input);
      if (maker == makers.end() || maker->second == kGiven) continue;
      readers[maker->second].push_back(n);
      ++waiting[n];
    }
    if (waiting[n] == 0) ready.insert(n);
  }
  std::vector<Node> ordered;
  while (!ready.empty()) {
    const size_t n = *ready.begin();
    ready.erase(ready.begin());
    for (const size_t reader : readers[n]) {
      if (--waiting[reader] == 0) ready.insert(reader);
    }
    ordered.push_back(with_ordered_graphs(std::move(graph.nodes[n])));
  }
  if (ordered.size() < count) {
    for (size_t n = 0; n < count; ++n) {
      if (waiting[n] != 0)
        throw_user_error(graph.nodes[n].describe() + " is in a cycle, or reads from one");
    }
  }
  graph.nodes = std::move(ordered);
}

}  // namespace

void order_nodes(Model& model) {
  const Makers makers = makers_of(model.graph);
  check_all_made(model.graph, makers);
  order(model.graph, makers);
}

}  // namespace heddle::onnx
