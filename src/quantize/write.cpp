#include "quantize/write.h"

#include <set>
#include <utility>
#include <vector>

#include "onnx/file/edit_model.h"
#include "quantize/constants.h"
#include "quantize/weights.h"

namespace heddle::quantize {
namespace {

using onnx::NewNode;
using onnx::Node;

class Writer {
 public:
  Writer(const onnx::Model& model, const Decision& decision,
         const std::map<std::string, Scale>& scales, const QuantizeOptions& options)
      : graph_(model.graph),
        decision_(decision),
        scales_(scales),
        options_(options),
        constants_(constants_of(model.graph)) {
    take_names_of(graph_);
  }

  /// Names of graphs inside nodes are taken, too: a name of the outer graph must be none of them.
  void take_names_of(const onnx::Graph& graph) {
    for (const auto& [name, array] : graph.initializers) names_.insert(name);
    for (const onnx::ValueInfo& input : graph.inputs) names_.insert(input.name);
    for (const Node& node : graph.nodes) {
      names_.insert(node.name);
      names_.insert(node.outputs.begin(), node.outputs.end());
      for (const onnx::Subgraph& inner : onnx::graphs_in(node)) take_names_of(*inner);
    }
  }

  onnx::ModelEdit edit() {
    for (const onnx::ValueInfo& input : graph_.inputs) store(input.name, edit_.first);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (const std::string& name : graph_.nodes[n].outputs) {
        std::vector<NewNode> nodes;
        store(name, nodes);
        std::vector<NewNode>& after = edit_.after[n];
        after.insert(after.end(), nodes.begin(), nodes.end());
      }
    }
    for (const auto& [n, i] : decision_.reads)
      edit_.inputs[{n, i}] = written.stands_for.at(graph_.nodes[n].inputs[i]);
    for (const size_t n : decision_.products) product(n);
    drop_unread();
    return std::move(edit_);
  }

  WrittenModel written;

 private:
  std::string fresh(const std::string& name) {
    std::string unique = name;
    for (int i = 2; !names_.insert(unique).second; ++i) unique = name + "_" + std::to_string(i);
    return unique;
  }

  std::string add(const std::string& name, NDArray array) {
    const std::string unique = fresh(name);
    edit_.initializers.emplace(unique, std::move(array));
    return unique;
  }

  /// A tensor becomes bytes, and f32 again for its readers.
  void store(const std::string& name, std::vector<NewNode>& nodes) {
    const auto found = scales_.find(name);
    if (found == scales_.end()) return;
    const Scale& s = found->second;
    NDArray scale = NDArray::full({}, f32, s.scale);
    NDArray zero = NDArray::full({}, s.dtype, static_cast<double>(s.zero));
    const std::string scale_name = add(name + "_scale", std::move(scale));
    const std::string zero_name = add(name + "_zero_point", std::move(zero));
    const std::string bytes = fresh(name + "_quantized"), reals = fresh(name + "_dequantized");
    nodes.push_back(
        {fresh(name + "_quantize"), "QuantizeLinear", {name, scale_name, zero_name}, {bytes}});
    nodes.push_back(
        {fresh(name + "_dequantize"), "DequantizeLinear", {bytes, scale_name, zero_name}, {reals}});
    written.stands_for[name] = reals;
  }

  /// Integers and their scales as initialisers, and the node that makes f32 of them.
  std::string constant(const std::string& name, const QuantizedArray& array,
                       std::optional<int> axis) {
    const std::string integers = add(name + "_quantized", array.integers);
    const std::string scale = add(name + "_scale", array.scales);
    const std::string zero =
        add(name + "_zero_point", NDArray::zeros(array.scales.shape(), array.integers.dtype()));
    const std::string reals = fresh(name + "_dequantized");
    NewNode node{fresh(name + "_dequantize"), "DequantizeLinear", {integers, scale, zero}, {reals}};
    if (axis && array.scales.rank() > 0) node.attributes["axis"] = *axis;
    edit_.first.push_back(std::move(node));
    return reals;
  }

  void product(size_t n) {
    const Node& node = graph_.nodes[n];
    const NDArray& weights = constants_.at(node.inputs[1]);
    const std::optional<int> axis =
        options_.per_channel ? channel_axis(node, weights.rank()) : std::nullopt;
    const std::pair<std::string, int> key{node.inputs[1], axis.value_or(-1)};
    auto found = weights_.find(key);
    if (found == weights_.end()) {
      const QuantizedArray array = quantized_weights(weights, axis);
      written.weight_bytes += array.integers.bytes();
      written.weight_bytes_before += weights.bytes();
      found = weights_.emplace(key, std::pair{constant(node.inputs[1], array, axis), array.scales})
                  .first;
    }
    edit_.inputs[{n, 1}] = found->second.first;
    if (node.inputs.size() > 2) bias(n, found->second.second);
  }

  /// Runtimes with integer kernels want the bias as an integer. A bias of another shape, and one
  /// that does not fit, stays in f32.
  void bias(size_t n, const NDArray& scales) {
    const Node& node = graph_.nodes[n];
    const auto values = constants_.find(node.inputs[2]);
    if (values == constants_.end() || values->second.dtype() != f32 || values->second.rank() != 1 ||
        (scales.rank() == 1 && values->second.shape() != scales.shape()))
      return;
    const std::optional<QuantizedArray> array =
        quantized_bias(values->second, scales, scales_.at(node.inputs[0]).scale);
    if (array) edit_.inputs[{n, 2}] = constant(node.inputs[2], *array, 0);
  }

  /// Initialisers whose last reader reads something else now.
  void drop_unread() {
    std::set<std::string> read;
    for (const onnx::ValueInfo& output : graph_.outputs) read.insert(output.name);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (!edit_.inputs.count({n, i})) read.insert(node.inputs[i]);
      }
      read.merge(onnx::captured_names(node));
    }
    for (const auto& [at, name] : edit_.inputs) {
      const std::string& before = graph_.nodes[at.first].inputs[at.second];
      if (graph_.initializers.count(before) && !read.count(before)) edit_.dropped.insert(before);
    }
  }

  const onnx::Graph& graph_;
  const Decision& decision_;
  const std::map<std::string, Scale>& scales_;
  const QuantizeOptions& options_;
  std::map<std::string, NDArray> constants_;
  std::set<std::string> names_;
  std::map<std::pair<std::string, int>, std::pair<std::string, NDArray>> weights_;
  onnx::ModelEdit edit_;
};

}  // namespace

WrittenModel write_model(std::string_view file, const onnx::Model& model, const Decision& decision,
                         const std::map<std::string, Scale>& scales,
                         const QuantizeOptions& options) {
  Writer writer(model, decision, scales, options);
  const onnx::ModelEdit edit = writer.edit();
  writer.written.bytes = onnx::edited_model(file, model, edit);
  return std::move(writer.written);
}

}  // namespace heddle::quantize
