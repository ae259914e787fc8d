// Makes a declaration of a file, node by node.
#include "heddle/onnx/import.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "heddle/codegen/interpreter.h"
#include "heddle/ops/elementwise.h"
#include "heddle/support/error.h"
#include "onnx/graph.h"
#include "onnx/narrow.h"
#include "onnx/node_scope.h"
#include "support/edit_distance.h"

namespace heddle {

std::vector<Tensor> OnnxModel::args() const {
  std::vector<Tensor> all = inputs;
  all.insert(all.end(), outputs.begin(), outputs.end());
  return all;
}

std::vector<NDArray> OnnxModel::arrays(const std::vector<NDArray>& input_arrays,
                                       const std::vector<NDArray>& output_arrays) const {
  std::vector<NDArray> all = input_arrays;
  all.insert(all.end(), output_arrays.begin(), output_arrays.end());
  return all;
}

std::vector<std::string> OnnxModel::arg_names() const {
  std::vector<std::string> all = input_names;
  all.insert(all.end(), output_names.begin(), output_names.end());
  return all;
}

bool onnx_available() { return true; }

namespace onnx {
namespace {

// The largest numbers of elements of nodes that are computed at import, so that the interpreter
// takes no noticeable time.
constexpr int64_t kMostFoldedInputs = 1 << 15, kMostFoldedOutputs = 1 << 16;
constexpr size_t kMostMistakes = 20;
constexpr int32_t kFileFloat = 1;  // TensorProto::FLOAT

void add_line(std::string& text, const std::string& line) {
  text += (text.empty() ? "" : "\n    ") + line;
}

void check_precision(DataType precision) {
  if (precision != f32 && precision != f16 && precision != bf16)
    throw_user_error("the precision is " + to_string(precision), {}, "f32, f16 or bf16");
}

void check_operators(const Graph& graph) {
  std::string unknown;
  size_t count = 0;
  for (const Node& node : graph.nodes) {
    if (node.domain.empty() && find_operator(node.op) != nullptr) continue;
    std::string line = node.describe();
    if (!node.domain.empty()) line += " of domain '" + node.domain + "'";
    if (++count <= kMostMistakes) add_line(unknown, line);
  }
  if (count == 0) return;
  if (count > kMostMistakes)
    add_line(unknown, "and " + std::to_string(count - kMostMistakes) + " more");
  throw_user_error("operators that are not supported:\n    " + unknown, {},
                   "`heddle onnx --coverage` shows those that are");
}

/// The name of a dimension: that of the file, or "x:0".
std::string dim_name(const ValueInfo& info, size_t d) {
  return info.shape[d].name.empty() ? info.name + ":" + std::to_string(d) : info.shape[d].name;
}

bool is_in(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Throws a User error for a name in the options that no input has, then for inputs' dimensions
/// that have no extent.
void check_dims(const Graph& graph, const OnnxOptions& options) {
  std::vector<std::string> open, missing;
  std::string missing_at;
  const auto is_given = [&](const std::string& name) {
    return options.dims.count(name) > 0 || options.ranges.count(name) > 0;
  };
  for (const ValueInfo& info : graph.inputs) {
    for (size_t d = 0; d < info.shape.size(); ++d) {
      const bool is_batch = d == 0 && options.batch != 0;
      if (!is_batch && info.shape[d].extent >= 0) continue;
      const std::string name = dim_name(info, d);
      if (!is_in(open, name)) open.push_back(name);
      if (is_batch || is_given(name) || is_in(missing, name)) continue;
      if (missing.empty())
        missing_at = "dimension " + std::to_string(d) + " of input '" + info.name + "'";
      missing.push_back(name);
    }
  }
  std::vector<std::string> names;
  for (const auto& [name, extent] : options.dims) names.push_back(name);
  for (const auto& [name, range] : options.ranges) names.push_back(name);
  for (const std::string& name : names) {
    if (is_in(open, name)) continue;
    std::string help = did_you_mean(name, open), list;
    for (const std::string& known : open) list += (list.empty() ? "" : ", ") + known;
    if (!help.empty()) help += " ";
    help += list.empty() ? "all of its inputs have fixed extents" : "the open ones are " + list;
    throw_user_error("no input has a dimension '" + name + "'", {}, help);
  }
  if (missing.empty()) return;
  std::string entries, words;
  for (const std::string& name : missing) {
    entries += (entries.empty() ? "{\"" : ", {\"") + name + "\", 1}";
    words += (words.empty() ? "" : ",") + name + "=1";
  }
  throw_user_error(missing_at + " is '" + missing.front() + "', which has no extent", {},
                   "on the command line MODEL:" + words + " (the same as --dims " + words +
                       "), or a range, MODEL:" + missing.front() + "=1..8; in C++ .dims = {" +
                       entries + "}");
}

class Importer {
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
      values_[name] = pool_.add(std::move(array), name);
    for (const ValueInfo& input : model_.graph.inputs) declare_input(input);
    for (const Node& node : needed_nodes()) declare(node);
    if (!mistakes_.empty()) throw_user_error(all_mistakes(), where_, batch_hint());
    collect_outputs();
    collect_constants();
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
                                                           : options_.dims.at(dim_name(info, d));
      if (extent < 1 || extent > (int64_t{1} << 40))
        throw_user_error("dimension " + std::to_string(d) + " of " + what + " has the extent " +
                         std::to_string(extent));
      shape.emplace_back(extent);
    }
    const Tensor tensor = placeholder(shape, dtype_of(info.type, what), info.name, Where{});
    result_.inputs.push_back(tensor);
    result_.input_names.push_back(info.name);
    values_[info.name] = narrows(tensor.dtype()) ? ops::cast(tensor, precision_, Where{}) : tensor;
  }

  bool narrows(DataType type) const { return precision_ != f32 && type == f32; }

  // A result that is f32 here was made of numbers of the model alone, or is a scale.
  Tensor narrowed(const Tensor& tensor) const {
    return narrows(tensor.dtype()) ? onnx::narrowed(tensor, precision_) : tensor;
  }

  // A known array in the narrower type.
  Value narrowed_constant(const Value& value, const std::string& name) {
    const auto known = narrow_.find(value.array().data());
    if (known != narrow_.end()) return known->second;
    const Value narrow = pool_.add(onnx::narrowed(value.array(), precision_), name);
    return narrow_.emplace(value.array().data(), narrow).first->second;
  }

  // The inputs, in the narrower type, of a node that is not computed at import.
  std::vector<Value> narrowed_inputs(const Node& node, const std::vector<Value>& inputs) {
    std::vector<Value> narrow = inputs;
    for (size_t i = 0; i < narrow.size(); ++i) {
      if (narrow[i].defined() && narrow[i].known() && narrows(narrow[i].dtype()) &&
          narrow[i].array().size() > 0)
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

  // The nodes that the outputs depend on.
  std::vector<Node> needed_nodes() const {
    std::unordered_set<std::string> wanted;
    for (const ValueInfo& output : model_.graph.outputs) wanted.insert(output.name);
    std::vector<Node> needed;
    const std::vector<Node>& nodes = model_.graph.nodes;
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
      const bool used = std::any_of(node->outputs.begin(), node->outputs.end(),
                                    [&](const std::string& o) { return wanted.count(o) > 0; });
      if (!used) continue;
      wanted.insert(node->inputs.begin(), node->inputs.end());
      needed.push_back(*node);
    }
    std::reverse(needed.begin(), needed.end());
    return needed;
  }

  // A node that fails is recorded, and its readers are left out, so that one import reports all
  // independent mistakes.
  void declare(const Node& node) {
    std::vector<Value> inputs;
    for (const std::string& input : node.inputs) {
      inputs.push_back(input.empty() ? Value() : values_[input]);
      if (!input.empty() && !inputs.back().defined()) return;
    }
    while (!inputs.empty() && !inputs.back().defined()) inputs.pop_back();
    try {
      const std::vector<Value> outputs = folded(node, inputs, declared(node, inputs));
      for (size_t o = 0; o < node.outputs.size() && o < outputs.size(); ++o) {
        if (node.outputs[o].empty()) continue;
        Value& value = values_[node.outputs[o]];
        value = outputs[o].known() ? outputs[o] : Value(narrowed(outputs[o].tensor()));
        if (notes_ != nullptr && !value.known()) name_operations(value.tensor(), node.describe());
      }
    } catch (const Error& e) {
      if (e.kind == ErrorKind::Internal) throw;
      if (mistakes_.size() == kMostMistakes) return;
      mistakes_.push_back(node.describe() + ": " + e.message +
                          (e.help.empty() ? "" : " (" + e.help + ")"));
    }
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
    const bool known = std::all_of(inputs.begin(), inputs.end(),
                                   [](const Value& v) { return !v.defined() || v.known(); });
    const bool narrow = precision_ != f32 && !known;
    const NodeScope scope(node, inputs, narrow ? narrowed_inputs(node, inputs) : inputs,
                          narrow ? precision_ : f32, pool_);
    std::vector<Value> outputs = find_operator(node.op)(scope);
    for (size_t o = outputs.size(); o < node.outputs.size(); ++o) {
      if (!node.outputs[o].empty())
        throw_user_error("its output '" + node.outputs[o] + "' is not supported");
    }
    return outputs;
  }

  // Nodes that depend on known arrays only are computed at import.
  std::vector<Value> folded(const Node& node, const std::vector<Value>& inputs,
                            std::vector<Value> outputs) {
    int64_t read = 0, written = 0;
    std::vector<TensorValue> known;
    for (const Value& input : inputs) {
      if (!input.defined()) continue;
      if (!input.known()) return outputs;
      read += input.size();
      if (input.size() > 1) known.push_back({input.tensor(), input.array()});
    }
    std::vector<Tensor> tensors;
    for (const Value& output : outputs) {
      written += output.size();
      if (!output.known()) tensors.push_back(output.tensor());
    }
    if (tensors.empty() || !folds(node, read, written) || widens_bytes(inputs, outputs))
      return outputs;
    std::vector<NDArray> arrays = interpret(tensors, known);
    size_t next = 0;
    for (size_t o = 0; o < outputs.size(); ++o) {
      if (outputs[o].known()) continue;
      outputs[o] = pool_.add(arrays[next++], o < node.outputs.size() ? node.outputs[o] : node.op);
    }
    return outputs;
  }

  /// Whether bytes become floats, as weights do that a tool quantised. Products of bytes need them
  /// as they are.
  static bool widens_bytes(const std::vector<Value>& inputs, const std::vector<Value>& outputs) {
    return std::any_of(inputs.begin(), inputs.end(), [&](const Value& input) {
      return input.defined() && input.size() > 1 && input.dtype().is_integral() &&
             input.dtype().bits == 8 && outputs.size() == 1 && outputs[0].dtype().is_float() &&
             outputs[0].size() == input.size();
    });
  }

  bool folds(const Node& node, int64_t read, int64_t written) const {
    const bool small = read <= kMostFoldedInputs && written <= kMostFoldedOutputs;
    if (notes_ == nullptr) return small;
    if (!small) notes_->unfolded.insert(node.outputs.at(0));
    return notes_->unfolded.count(node.outputs.at(0)) == 0;
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

  // Every output is computed: an output that is an input, a constant or another output becomes a
  // copy.
  void collect_outputs() {
    for (const ValueInfo& info : model_.graph.outputs) {
      const auto found = values_.find(info.name);
      if (found == values_.end() || !found->second.defined())
        throw_user_error("nothing makes the output '" + info.name + "'");
      Tensor tensor = found->second.tensor();
      if (precision_ != f32 && tensor.dtype() == precision_ && info.type == kFileFloat)
        tensor = ops::cast(tensor, f32, Where{});
      const bool twice = std::any_of(result_.outputs.begin(), result_.outputs.end(),
                                     [&](const Tensor& other) { return other.same_as(tensor); });
      if (twice || tensor.op()->is_placeholder()) tensor = ops::identity(tensor, Where{});
      result_.outputs.push_back(tensor);
      result_.output_names.push_back(info.name);
    }
    if (result_.outputs.empty()) throw_user_error("it has no outputs");
  }

  // Collects constants that the outputs depend on. Inputs that they do not depend on are dropped.
  void collect_constants() {
    std::unordered_set<const Operation*> reached;
    std::vector<Tensor> open = result_.outputs;
    while (!open.empty()) {
      const Tensor tensor = open.back();
      open.pop_back();
      if (!reached.insert(tensor.op()).second) continue;
      for (const Tensor& input : tensor.op()->inputs()) open.push_back(input);
    }
    for (size_t i = result_.inputs.size(); i-- > 0;) {
      if (reached.count(result_.inputs[i].op())) continue;
      const auto at = static_cast<std::ptrdiff_t>(i);
      result_.inputs.erase(result_.inputs.begin() + at);
      result_.input_names.erase(result_.input_names.begin() + at);
    }
    for (const auto& constant : pool_.all()) {
      const Tensor& tensor = constant->tensor;
      if (!tensor || !tensor.op()->is_placeholder() || !reached.count(tensor.op())) continue;
      result_.constants.push_back(tensor);
    }
  }

  Model model_;
  const OnnxOptions& options_;
  DataType precision_;
  Where where_;
  ImportNotes* notes_;
  ConstantPool pool_;
  std::map<const void*, Value> narrow_;  // keyed by the address of the elements of the f32 array
  std::map<std::string, Value> values_;
  std::vector<std::string> mistakes_;
  int64_t exported_batch_ = -1;  ///< a first dimension that OnnxOptions::batch replaced
  OnnxModel result_;
};

}  // namespace

OnnxModel import_constant(Model model, const OnnxOptions& options, Where where,
                          ImportNotes* notes) {
  return Importer(std::move(model), options, where, notes).run();
}

OnnxModel import_model(Model model, const OnnxOptions& options, Where where) {
  const std::string path = model.path;
  try {
    // What does not depend on sizes is checked once.
    check_precision(options.precision);
    inline_functions(model);
    check_operators(model.graph);
    check_dims(model.graph, options);
    order_nodes(model);
    if (!options.ranges.empty()) return import_ranges(model, options, where);
    return import_constant(std::move(model), options, where, nullptr);
  } catch (const Error& e) {
    throw Error(e.kind, "'" + path + "': " + e.message, where, e.help);
  }
}

}  // namespace onnx

OnnxModel import_onnx(const std::string& path, const OnnxOptions& options, Where where) {
  return onnx::import_model(onnx::read_model(path), options, where);
}

}  // namespace heddle
