#include "quantize/decide.h"

#include <algorithm>
#include <cmath>

#include "quantize/constants.h"
#include "support/edit_distance.h"

namespace heddle::quantize {
namespace {

using onnx::Graph;
using onnx::Node;

// A slice is none of them: its values may be far smaller than those of the whole.
const std::map<std::string, Role>& roles() {
  static const std::map<std::string, Role> all = {
      {"Conv", Role::Product},     {"Gemm", Role::Product},
      {"MatMul", Role::Product},   {"DepthToSpace", Role::Passes},
      {"Flatten", Role::Passes},   {"Identity", Role::Passes},
      {"MaxPool", Role::Passes},   {"Reshape", Role::Passes},
      {"Squeeze", Role::Passes},   {"Transpose", Role::Passes},
      {"Unsqueeze", Role::Passes}, {"Concat", Role::Joins},
      {"Add", Role::Mixes},        {"AveragePool", Role::Mixes},
      {"ReduceMean", Role::Mixes}, {"GlobalAveragePool", Role::Mixes},
  };
  return all;
}

/// Operators that are computed on the result of the node before, which is then not stored.
bool may_follow(const Node& node) {
  return node.op == "Relu" || node.op == "Clip" || node.op == "Add";
}

double number_of(const Node& node, const char* attribute, double usual) {
  const auto found = node.attributes.find(attribute);
  if (found == node.attributes.end()) return usual;
  if (const auto* real = std::get_if<float>(&found->second.value)) return *real;
  if (const auto* whole = std::get_if<int64_t>(&found->second.value))
    return static_cast<double>(*whole);
  return usual;
}

bool is_finite(const NDArray& array) {
  const auto* values = array.data<float>();
  return std::all_of(values, values + array.size(), [](float v) { return std::isfinite(v); });
}

class Decider {
 public:
  Decider(const onnx::Model& model, const QuantizeOptions& options)
      : graph_(model.graph), options_(options), constants_(constants_of(graph_)) {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (size_t i = 0; i < graph_.nodes[n].inputs.size(); ++i)
        readers_[graph_.nodes[n].inputs[i]].emplace_back(n, i);
    }
    for (const onnx::ValueInfo& output : graph_.outputs) outputs_.insert(output.name);
    for (const Node& node : graph_.nodes) outputs_.merge(onnx::captured_names(node));
    check_kept();
  }

  Decision run() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) find_product(n);
    while (keep_bytes()) {
    }
    for (size_t n = 0; n < graph_.nodes.size(); ++n) read_bytes(n);
    count_others();
    for (const Node& node : graph_.nodes) share_ranges(node);
    order_tensors();
    return std::move(decision_);
  }

 private:
  void check_kept() const {
    std::vector<std::string> names;
    for (const Node& node : graph_.nodes) names.push_back(node.name);
    for (const std::string& name : options_.keep) {
      if (std::find(names.begin(), names.end(), name) != names.end()) continue;
      throw_user_error("the model has no node '" + name + "' that could stay in f32", {},
                       did_you_mean(name, names));
    }
  }

  bool is_kept(const Node& node) const {
    return std::find(options_.keep.begin(), options_.keep.end(), node.name) != options_.keep.end();
  }

  Role role(const Node& node) const {
    const Role role = role_of(node);
    const bool with_constant =
        std::any_of(node.inputs.begin(), node.inputs.end(),
                    [&](const std::string& name) { return constants_.count(name) > 0; });
    return role == Role::Mixes && node.op == "Add" && with_constant ? Role::Other : role;
  }

  /// Why the product stays in f32; empty where it need not.
  std::string reason(const Node& node) const {
    if (is_kept(node)) return "it is kept in f32 on request";
    const auto weights =
        node.inputs.size() > 1 ? constants_.find(node.inputs[1]) : constants_.end();
    if (constants_.count(node.inputs[0])) return "its input is constant";
    if (weights == constants_.end()) return "both of its operands are computed";
    if (weights->second.dtype() != f32)
      return "its weights are " + to_string(weights->second.dtype());
    if (weights->second.rank() < 2 || weights->second.size() == 0)
      return "its weights are no matrix";
    if (!is_finite(weights->second)) return "its weights are not finite";
    if (number_of(node, "alpha", 1) != 1 || number_of(node, "beta", 1) != 1 ||
        number_of(node, "transA", 0) != 0)
      return "it scales or transposes its operands";
    return {};
  }

  void find_product(size_t n) {
    const Node& node = graph_.nodes[n];
    if (role(node) != Role::Product || node.inputs.empty()) return;
    const std::string in_float = reason(node);
    decision_.nodes.push_back({node.describe(), in_float});
    if (!in_float.empty()) return;
    decision_.products.insert(n);
    bytes_.insert(node.inputs[0]);
  }

  /// The tensor that is stored of the node's result: behind nodes that follow it alone, which are
  /// added to `followers`.
  std::string result_of(const Node& node, std::set<size_t>* followers = nullptr) const {
    if (node.outputs.empty()) return {};
    std::string name = node.outputs[0];
    for (;;) {
      const auto found = readers_.find(name);
      if (bytes_.count(name) || outputs_.count(name) || found == readers_.end() ||
          found->second.size() != 1)
        return name;
      const Node& reader = graph_.nodes[found->second[0].first];
      if (!reader.domain.empty() || !may_follow(reader) || role(reader) != Role::Other ||
          reader.outputs.size() != 1)
        return name;
      name = reader.outputs[0];
      if (followers) followers->insert(found->second[0].first);
    }
  }

  std::vector<size_t> data_inputs(const Node& node) const {
    std::vector<size_t> all;
    const bool several = role(node) == Role::Joins || node.op == "Add";
    for (size_t i = 0; i < (several ? node.inputs.size() : 1); ++i) {
      if (!node.inputs[i].empty() && !constants_.count(node.inputs[i])) all.push_back(i);
    }
    return all;
  }

  /// Nodes whose results are bytes read bytes. Returns whether there was one.
  bool keep_bytes() {
    bool changed = false;
    for (size_t n = graph_.nodes.size(); n-- > 0;) {
      const Node& node = graph_.nodes[n];
      const Role r = role(node);
      if (r == Role::Product || r == Role::Other || passing_.count(n) || node.inputs.empty() ||
          is_kept(node) || !bytes_.count(result_of(node)))
        continue;
      passing_.insert(n);
      for (const size_t i : data_inputs(node)) bytes_.insert(node.inputs[i]);
      changed = true;
    }
    return changed;
  }

  void read_bytes(size_t n) {
    const Node& node = graph_.nodes[n];
    const bool product = decision_.products.count(n) > 0, passes = passing_.count(n) > 0;
    if (passes) decision_.nodes.push_back({node.describe(), {}});
    if (!product && !passes && (is_kept(node) || !bytes_.count(result_of(node)))) return;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (bytes_.count(node.inputs[i]) && (i == 0 || !product)) decision_.reads.emplace(n, i);
    }
  }

  /// Nodes that follow products and results that are bytes are computed with them.
  void count_others() {
    std::set<size_t> followers;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (decision_.products.count(n) || passing_.count(n)) result_of(graph_.nodes[n], &followers);
    }
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      const bool constant = !node.outputs.empty() && constants_.count(node.outputs[0]) > 0;
      if (!constant && role(node) != Role::Product && !passing_.count(n) && !followers.count(n))
        ++decision_.other_nodes[node.op];
    }
  }

  /// The result of a node that passes values on has the range of what it reads, and what a join
  /// alone reads has the range of the whole where that is read as bytes only: it would take the steps
  /// of the whole in any case. Readers in f32 see parts with steps of their own.
  void share_ranges(const Node& node) {
    const Role r = role(node);
    if (r == Role::Passes && !node.inputs.empty() && bytes_.count(node.inputs[0]) &&
        bytes_.count(node.outputs[0]))
      decision_.range_of[node.outputs[0]] = node.inputs[0];
    if (r != Role::Joins || !bytes_.count(node.outputs[0]) || !is_read_as_bytes(node.outputs[0]))
      return;
    for (const std::string& part : node.inputs) {
      const bool alone = readers_[part].size() == 1 && !outputs_.count(part);
      if (alone && bytes_.count(part) && !decision_.range_of.count(part))
        decision_.range_of[part] = node.outputs[0];
    }
  }

  bool is_read_as_bytes(const std::string& name) {
    const auto& readers = readers_[name];
    return !outputs_.count(name) &&
           std::all_of(readers.begin(), readers.end(),
                       [&](const auto& at) { return decision_.reads.count(at) > 0; });
  }

  void order_tensors() {
    const auto add = [&](const std::string& name) {
      if (bytes_.count(name)) decision_.tensors.push_back(name);
    };
    for (const onnx::ValueInfo& input : graph_.inputs) add(input.name);
    for (const Node& node : graph_.nodes) {
      for (const std::string& name : node.outputs) add(name);
    }
  }

  const Graph& graph_;
  const QuantizeOptions& options_;
  std::map<std::string, NDArray> constants_;
  std::map<std::string, std::vector<std::pair<size_t, size_t>>> readers_;
  std::set<std::string>
      outputs_;  ///< what is read outside of the graph, and by graphs inside nodes
  std::set<std::string> bytes_;
  std::set<size_t> passing_;
  Decision decision_;
};

}  // namespace

Role role_of(const Node& node) {
  const auto found = roles().find(node.op);
  return node.domain.empty() && found != roles().end() ? found->second : Role::Other;
}

std::optional<int> channel_axis(const Node& node, int rank) {
  if (node.op == "Conv") return 0;
  if (node.op == "Gemm") return number_of(node, "transB", 0) != 0 ? 0 : 1;
  return rank == 2 ? std::optional<int>(1) : std::nullopt;
}

Decision decide(const onnx::Model& model, const QuantizeOptions& options) {
  return Decider(model, options).run();
}

}  // namespace heddle::quantize
