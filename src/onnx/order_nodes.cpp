// Puts nodes in an order in which they can be declared.
#include <set>
#include <unordered_map>
#include <utility>

#include "heddle/support/error.h"
#include "onnx/graph.h"

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

void check_all_made(const Graph& graph, const Makers& makers) {
  for (const Node& node : graph.nodes) {
    for (const std::string& input : node.inputs) {
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

}  // namespace

void order_nodes(Model& model) {
  Graph& graph = model.graph;
  const Makers makers = makers_of(graph);
  check_all_made(graph, makers);
  // Kahn's algorithm. Of the nodes that are ready, the first in the file comes first.
  const size_t count = graph.nodes.size();
  std::vector<size_t> waiting(count, 0);
  std::vector<std::vector<size_t>> readers(count);
  std::set<size_t> ready;
  for (size_t n = 0; n < count; ++n) {
    const std::set<std::string> inputs(graph.nodes[n].inputs.begin(), graph.nodes[n].inputs.end());
    for (const std::string& input : inputs) {
      const size_t maker = input.empty() ? kGiven : makers.at(input);
      if (maker == kGiven) continue;
      readers[maker].push_back(n);
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
    ordered.push_back(std::move(graph.nodes[n]));
  }
  if (ordered.size() < count) {
    for (size_t n = 0; n < count; ++n) {
      if (waiting[n] != 0)
        throw_user_error(graph.nodes[n].describe() + " is in a cycle, or reads from one");
    }
  }
  graph.nodes = std::move(ordered);
}

}  // namespace heddle::onnx
