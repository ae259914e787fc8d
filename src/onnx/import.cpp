// Makes a declaration of a file, node by node.
#include "heddle/onnx/import.h"

#include <algorithm>
#include <utility>

#include "heddle/ops/elementwise.h"
#include "heddle/support/error.h"
#include "onnx/collect.h"
#include "onnx/file/check_model.h"
#include "onnx/file/graph.h"
#include "onnx/fold.h"
#include "onnx/narrow.h"
#include "onnx/node_scope.h"
#include "onnx/open_rows.h"

namespace heddle::onnx {
namespace {

constexpr size_t kMostInnerNodes = 100000;
// Recurrent layers of so many steps are loops. Of fewer, unrolled ones save a noticeable part: the product with
// the first state, which is 0.
constexpr int64_t kStepsOfLoop = 24;
constexpr int64_t kPartOpset = 21;  // of parts of nodes

/// The names of the values of a graph. Those of the graphs around it can be read.
struct Names {
  const Names* outer = nullptr;
  std::map<std::string, Value> values = {};

  Value find(const std::string& name) const {
    for (const Names* names = this; names != nullptr; names = names->outer) {
      const auto found = names->values.find(name);
      if (found != names->values.end()) return found->second;
    }
    return {};
  }
};

/// Thrown where the nodes of a graph inside a node have failed. Their mistakes are recorded.
struct GraphFailed {};

class Importer final : public Declarer {
 public:
  Importer(Model model, const OnnxOptions& options, Where where, ImportNotes* notes)
      : model_(std::move(model)),
        options_(options),
        precision_(options.precision),
        where_(where),
        notes_(notes) {}

  OnnxModel run() {
    result_.path = model_.path;
    for (auto& [name, array] : model_.graph.initializers)
      top_.values[name] = pool_.add(std::move(array), name, model_.graph.four_bits.count(name) > 0);
    for (const ValueInfo& input : model_.graph.inputs) declare_input(input);
    for (const Node* node : needed_nodes(model_.graph)) declare(*node);
    if (!mistakes_.empty()) throw_user_error(all_mistakes(), where_, batch_hint());
    collect(
        model_.graph, [&](const std::string& name) { return top_.find(name); }, precision_, pool_,
        result_);
    return std::move(result_);
  }

 private:
  void declare_input(const ValueInfo& info) {
    const std::string what = "input '" + info.name + "'";
    if (info.type == 0) throw_user_error(what + " is no tensor, which is not supported");
    if (!info.has_shape) throw_user_error(what + " has no shape");
    Shape shape;
    for (size_t d = 0; d < info.shape.size(); ++d) {
      const Dimension& dim = info.shape[d];
      const int64_t extent = d == 0 && options_.batch != 0 ? batch_of(info)
                             : dim.extent >= 0             ? dim.extent
                                                           : given_extent(dim_name(info, d));
      if (extent < 1 || extent > (int64_t{1} << 40))
        throw_user_error("dimension " + std::to_string(d) + " of " + what + " has the extent " +
                         std::to_string(extent));
      shape.emplace_back(extent);
    }
    const Tensor tensor = placeholder(shape, dtype_of(info.type, what), info.name, Where{});
    result_.inputs.push_back(tensor);
    result_.input_names.push_back(info.name);
    top_.values[info.name] =
        narrows(tensor.dtype()) ? ops::cast(tensor, precision_, Where{}) : tensor;
  }

  int64_t given_extent(const std::string& name) const {
    const auto sum = options_.sums.find(name);
    if (sum == options_.sums.end()) return options_.dims.at(name);
    int64_t extent = 0;
    for (const std::string& part : sum->second) extent += options_.dims.at(part);
    return extent;
  }

  bool narrows(DataType type) const { return precision_ != f32 && type == f32; }

  // A result that is f32 here was made of numbers of the model alone, or is a scale.
  Value narrowed(const Value& value) const {
    return value.map_arrays([&](const Value& v) -> Value {
      if (v.known() || !narrows(v.dtype())) return v;
      return onnx::narrowed(v.tensor(), precision_);
    });
  }

  // The same array for the imports of one file at several sizes.
  NDArray narrowed_array(const NDArray& array) {
    if (notes_ == nullptr) return onnx::narrowed(array, precision_);
    const auto [known, is_new] = notes_->narrow.try_emplace({array.data(), array.shape()});
    if (is_new) known->second = {array, onnx::narrowed(array, precision_)};
    return known->second.second;
  }

  // A known array in the narrower type.
  Value narrowed_constant(const Value& value, const std::string& name) {
    Value& narrow = narrow_[{value.array().data(), value.array().shape()}];
    if (!narrow.defined()) narrow = pool_.add(narrowed_array(value.array()), name);
    return narrow;
  }

  // The inputs, in the narrower type, of a node that is not computed at import.
  std::vector<Value> narrowed_inputs(const Node& node, const std::vector<Value>& inputs) {
    std::vector<Value> narrow = inputs;
    for (size_t i = 0; i < narrow.size(); ++i) {
      if (narrow[i].known() && narrows(narrow[i].dtype()) && narrow[i].array().size() > 0)
        narrow[i] = narrowed_constant(narrow[i], node.inputs[i]);
    }
    return narrow;
  }

  // The first dimension, which OnnxOptions::batch may replace.
  int64_t batch_of(const ValueInfo& info) {
    const Dimension& dim = info.shape[0];
    const std::string name = dim_name(info, 0);
    const auto given = options_.dims.find(name);
    if (given != options_.dims.end() && given->second != options_.batch) {
      throw_user_error("dimension '" + name + "' of input '" + info.name + "' is the batch, " +
                           std::to_string(options_.batch) + ", and is also to be " +
                           std::to_string(given->second),
                       {}, "give one of the two");
    }
    if (dim.extent >= 0 && dim.extent != options_.batch) exported_batch_ = dim.extent;
    return options_.batch;
  }

  // A node that fails is recorded, and its readers are left out, so that one import reports all
  // independent mistakes.
  void declare(const Node& node) {
    std::vector<Value> inputs;
    for (const std::string& input : node.inputs) {
      inputs.push_back(input.empty() ? Value() : names_->find(input));
      if (!input.empty() && !inputs.back().defined()) return;
    }
    for (const std::string& name : captured_names(node)) {
      if (!names_->find(name).defined()) return;
    }
    while (!inputs.empty() && !inputs.back().defined()) inputs.pop_back();
    try {
      const std::vector<Value> outputs = outputs_of(node, inputs);
      for (size_t o = 0; o < node.outputs.size() && o < outputs.size(); ++o) {
        if (!node.outputs[o].empty()) names_->values[node.outputs[o]] = outputs[o];
      }
    } catch (const GraphFailed&) {
    } catch (const Error& e) {
      if (e.kind == ErrorKind::Internal) throw;
      if (mistakes_.size() == kMostMistakes) return;
      mistakes_.push_back(node.describe() + ": " + e.message +
                          (e.help.empty() ? "" : " (" + e.help + ")"));
    }
  }

  std::vector<Value> outputs_of(const Node& node, const std::vector<Value>& inputs) {
    std::vector<Value> outputs = folded(node, inputs, declared(node, inputs), pool_, notes_);
    for (size_t o = 0; o < outputs.size(); ++o) {
      if (o < node.outputs.size() && node.outputs[o].empty()) continue;
      outputs[o] = narrowed(outputs[o]);
      if (notes_ != nullptr && outputs[o].is_array() && !outputs[o].known())
        name_operations(outputs[o].tensor(), node.describe());
    }
    return outputs;
  }

  std::vector<Value> declare_graph(const Graph& graph, const std::vector<Value>& inputs) override {
    if (inputs.size() != graph.inputs.size())
      throw_user_error("its graph '" + graph.name + "' has " + std::to_string(graph.inputs.size()) +
                       " inputs, and gets " + std::to_string(inputs.size()));
    auto& needed = needed_[&graph];
    if (needed.empty()) needed = needed_nodes(graph);
    inner_nodes_ += needed.size();
    if (inner_nodes_ > kMostInnerNodes)
      throw_user_error("the graphs inside nodes have more than " + std::to_string(kMostInnerNodes) +
                       " nodes, those of loops unrolled");
    Names names{names_};
    for (const auto& [name, array] : graph.initializers)
      names.values[name] = pool_.add(array, name, graph.four_bits.count(name) > 0);
    for (size_t i = 0; i < inputs.size(); ++i) names.values[graph.inputs[i].name] = inputs[i];
    const size_t mistakes = mistakes_.size();
    Names* const around = names_;
    names_ = &names;
    for (const Node* node : needed) declare(*node);
    names_ = around;
    std::vector<Value> outputs;
    for (const ValueInfo& output : graph.outputs) {
      outputs.push_back(names.find(output.name));
      if (outputs.back().defined()) continue;
      if (mistakes_.size() > mistakes || mistakes > 0) throw GraphFailed{};
      throw_user_error("nothing makes the output '" + output.name + "' of its graph");
    }
    return outputs;
  }

  std::optional<std::vector<Value>> try_graph(const Graph& graph,
                                              const std::vector<Value>& inputs) override {
    const size_t mistakes = mistakes_.size();
    std::optional<std::vector<Value>> made;
    try {
      made = declare_graph(graph, inputs);
    } catch (const GraphFailed&) {
    } catch (const Error& e) {
      if (e.kind == ErrorKind::Internal) throw;
    }
    if (mistakes_.size() > mistakes) made.reset();
    mistakes_.resize(mistakes);
    return made;
  }

  std::vector<Value> declare_part(const Node& whole, const std::string& op,
                                  const std::vector<Value>& inputs,
                                  std::map<std::string, Attribute> attributes) override {
    Node node;
    node.name = whole.name;
    node.op = op;
    node.opset = kPartOpset;
    node.attributes = std::move(attributes);
    node.outputs = {(whole.outputs.empty() ? "" : whole.outputs[0]) + "/" + op};
    for (size_t i = 0; i < inputs.size(); ++i)
      node.inputs.push_back(inputs[i].defined() ? whole.op + ":" + std::to_string(i) : "");
    return outputs_of(node, inputs);
  }

  const OnnxOptions& options() const override { return options_; }
  uint64_t turn_of(const Node& node) override {
    differs_ = true;
    return turns_[&node]++;
  }

  std::optional<Recurrence> begin_loop(const Node& node, int64_t steps) override {
    if (!options_.loops || names_ != &top_ || steps < 1) return std::nullopt;
    const std::string name = node.outputs.empty() ? node.name : node.describe();
    bool is_open = notes_ != nullptr && notes_->looped.contains(name);
    if (notes_ != nullptr && !is_open) {
      const auto [known, is_new] = notes_->steps.try_emplace(name, steps);
      if (known->second != steps) {
        notes_->looped.insert(name);
        throw_user_error("the number of its steps depends on the sizes");
      }
    }
    if (!is_open && steps < kStepsOfLoop) return std::nullopt;
    differs_ = false;
    return Recurrence(node.op + " " + (node.name.empty() ? node.outputs.at(0) : node.name),
                      Expr(steps), Where{});
  }
  bool end_loop(const Recurrence& loop) override {
    if (!differs_) result_.updates.repeats.push_back(loop.repeat());
    return !differs_;
  }

  // The operations that the node has declared: the producers of its result, up to those of other
  // nodes.
  void name_operations(const Tensor& result, const std::string& name) {
    std::vector<Tensor> open{result};
    while (!open.empty()) {
      const Tensor tensor = open.back();
      open.pop_back();
      if (tensor.op()->is_placeholder() || !notes_->names.emplace(tensor.op(), name).second)
        continue;
      for (const Tensor& input : tensor.op()->inputs()) open.push_back(input);
    }
  }

  std::vector<Value> declared(const Node& node, const std::vector<Value>& inputs) {
    const bool known = all_known(inputs) && graphs_in(node).empty();
    const bool narrow = precision_ != f32 && !known;
    const NodeScope scope(node, inputs, narrow ? narrowed_inputs(node, inputs) : inputs,
                          narrow ? precision_ : f32, pool_, *this);
    const OperatorEntry& op = *find_operator(node.domain, node.op);
    const std::optional<OpenRows> rows = rows_of_results(scope, op);
    std::vector<Value> outputs = op.declare(scope);
    for (Value& output : outputs) {
      if (rows && output.is_array() && output.rows() == nullptr)
        output = Value::with_rows(output.tensor(), *rows);
    }
    for (size_t o = outputs.size(); o < node.outputs.size(); ++o) {
      if (!node.outputs[o].empty())
        throw_user_error("its output '" + node.outputs[o] + "' is not supported");
    }
    return outputs;
  }

  std::string batch_hint() const {
    if (exported_batch_ < 0) return {};
    return "the file was exported for a batch of " + std::to_string(exported_batch_) +
           ", and here it is " + std::to_string(options_.batch) +
           "; where nodes contain that number, export it again with an open batch";
  }

  std::string all_mistakes() const {
    if (mistakes_.size() == 1) return mistakes_[0];
    std::string text;
    for (const std::string& mistake : mistakes_) add_line(text, mistake);
    return std::to_string(mistakes_.size()) + " nodes cannot be imported:\n    " + text;
  }

  Model model_;
  const OnnxOptions& options_;
  DataType precision_;
  Where where_;
  ImportNotes* notes_;
  ConstantPool pool_;
  // Keyed by the address of the elements of the f32 array and its shape.
  std::map<std::pair<const void*, Extents>, Value> narrow_;
  Names top_;             ///< of the model's graph
  Names* names_ = &top_;  ///< of the graph that is declared
  std::map<const Graph*, std::vector<const Node*>> needed_;
  std::map<const Node*, uint64_t> turns_;  ///< how often a node was declared
  bool differs_ = false;                   ///< whether turn_of() was called since a loop began
  size_t inner_nodes_ = 0;                 ///< nodes of graphs inside nodes, unrolled
  std::vector<std::string> mistakes_;
  int64_t exported_batch_ = -1;  ///< a first dimension that OnnxOptions::batch replaced
  OnnxModel result_;
};

}  // namespace

OnnxModel import_constant(Model model, const OnnxOptions& options, Where where,
                          ImportNotes* notes) {
  return Importer(std::move(model), options, where, notes).run();
}

}  // namespace heddle::onnx
