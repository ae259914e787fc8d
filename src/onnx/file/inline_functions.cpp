// Inlines local functions: each call becomes a copy of the body with names of its own.
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "heddle/support/error.h"
#include "onnx/file/graph.h"

namespace heddle::onnx {
namespace {

// The largest depth of calls. A function that calls itself would never end, and functions that call
// others twice double the size at each level.
constexpr int kDeepest = 32;
constexpr size_t kMostNodes = 1000000;

class Inliner {
 public:
  explicit Inliner(const std::vector<Function>& functions) {
    for (const Function& f : functions) functions_[{f.domain, f.name}] = &f;
  }

  std::vector<Node> run(std::vector<Node> nodes, int depth = 0) {
    std::vector<Node> outer;
    std::swap(outer, result_);
    for (Node& node : nodes) expand(std::move(node), depth);
    std::swap(outer, result_);
    return outer;
  }

 private:
  void expand(Node node, int depth) {
    const auto found = functions_.find({node.domain, node.op});
    if (found == functions_.end()) {
      for (auto& [name, attribute] : node.attributes) {
        const auto* inner = std::get_if<Subgraph>(&attribute.value);
        if (inner == nullptr) continue;
        const auto graph = std::make_shared<Graph>(**inner);
        graph->nodes = run(std::move(graph->nodes), depth);
        attribute.value = Subgraph(graph);
      }
      result_.push_back(std::move(node));
      ++made_;
      return;
    }
    const Function& f = *found->second;
    if (depth == kDeepest || made_ + calls_ > kMostNodes)
      throw_user_error(node.describe() + " calls functions without end");
    if (node.inputs.size() > f.inputs.size() || node.outputs.size() > f.outputs.size())
      throw_user_error(node.describe() + " has more inputs or outputs than its function");

    const std::string prefix =
        (node.name.empty() ? f.name : node.name) + "/" + std::to_string(calls_++) + "/";
    std::map<std::string, std::string> names{{"", ""}};
    for (size_t i = 0; i < f.inputs.size(); ++i)
      names[f.inputs[i]] = i < node.inputs.size() ? node.inputs[i] : "";
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (!node.outputs[i].empty()) names[f.outputs[i]] = node.outputs[i];
    }
    const auto renamed = [&](const std::string& name) {
      return names.try_emplace(name, prefix + name).first->second;
    };
    for (Node inner : f.nodes) {
      inner.name = prefix + inner.name;
      for (std::string& name : inner.inputs) name = renamed(name);
      for (std::string& name : inner.outputs) name = renamed(name);
      bind_attributes(inner, node, f);
      for (auto& [name, attribute] : inner.attributes) {
        if (const auto* graph = std::get_if<Subgraph>(&attribute.value))
          attribute.value = in_call(**graph, node, f, prefix + inner.op + "/", renamed);
      }
      expand(std::move(inner), depth + 1);
    }
  }

  // A graph inside a node of a function's body, for one call. Its own names get a prefix, so that
  // they differ from those of the graph that the call is in.
  static Subgraph in_call(const Graph& graph, const Node& call, const Function& f,
                          const std::string& prefix,
                          const std::function<std::string(const std::string&)>& around) {
    std::set<std::string> own;
    for (const ValueInfo& input : graph.inputs) own.insert(input.name);
    for (const auto& [name, array] : graph.initializers) own.insert(name);
    for (const Node& node : graph.nodes) own.insert(node.outputs.begin(), node.outputs.end());
    own.erase("");
    const auto renamed = [&](const std::string& name) {
      return own.count(name) > 0 ? prefix + name : around(name);
    };
    const auto result = std::make_shared<Graph>();
    result->name = graph.name;
    for (const auto& [name, array] : graph.initializers)
      result->initializers.emplace(renamed(name), array);
    for (const std::string& name : graph.four_bits) result->four_bits.insert(renamed(name));
    for (const auto& [from, to] :
         {std::pair{&graph.inputs, &result->inputs}, std::pair{&graph.outputs, &result->outputs}}) {
      *to = *from;
      for (ValueInfo& info : *to) info.name = renamed(info.name);
    }
    for (Node node : graph.nodes) {
      node.name = prefix + node.name;
      for (std::string& name : node.inputs) name = renamed(name);
      for (std::string& name : node.outputs) name = renamed(name);
      bind_attributes(node, call, f);
      for (auto& [name, attribute] : node.attributes) {
        if (const auto* inner = std::get_if<Subgraph>(&attribute.value))
          attribute.value = in_call(**inner, call, f, prefix + node.op + "/", renamed);
      }
      result->nodes.push_back(std::move(node));
    }
    return result;
  }

  // A reference to an attribute of the function gets the value of the call or the default. Without
  // either it is removed.
  static void bind_attributes(Node& inner, const Node& call, const Function& f) {
    for (auto it = inner.attributes.begin(); it != inner.attributes.end();) {
      const std::string& reference = it->second.reference;
      if (reference.empty()) {
        ++it;
        continue;
      }
      if (const auto given = call.attributes.find(reference); given != call.attributes.end()) {
        it->second = Attribute(given->second);
      } else if (const auto usual = f.defaults.find(reference); usual != f.defaults.end()) {
        it->second = Attribute(usual->second);
      } else {
        it = inner.attributes.erase(it);
        continue;
      }
      ++it;
    }
  }

  std::map<std::pair<std::string, std::string>, const Function*> functions_;
  std::vector<Node> result_;  ///< of the graph that is expanded
  size_t made_ = 0;           ///< nodes of all graphs
  int64_t calls_ = 0;
};

}  // namespace

void inline_functions(Model& model) {
  if (model.functions.empty()) return;
  model.graph.nodes = Inliner(model.functions).run(std::move(model.graph.nodes));
}

}  // namespace heddle::onnx
