#include "onnx/collect.h"

#include <algorithm>
#include <unordered_set>

#include "dsl/computed_for_loops.h"
#include "heddle/ops/elementwise.h"
#include "heddle/support/error.h"

namespace heddle::onnx {
namespace {

constexpr int32_t kFileFloat = 1;  // TensorProto::FLOAT

// The number of rows of an output that has an open number of them is an output, too.
void collect_counts(const Graph& graph, FunctionRef<Value(const std::string&)> find,
                    OnnxModel& model) {
  for (size_t o = 0; o < graph.outputs.size(); ++o) {
    const std::string& name = graph.outputs[o].name;
    const Value value = find(name);
    if (value.rows() == nullptr) continue;
    model.open_outputs.push_back(
        {static_cast<int>(o), value.rows()->axis, static_cast<int>(model.outputs.size())});
    model.outputs.push_back(ops::identity(value.rows()->count, Where{}));
    model.output_names.push_back(name + ":count");
  }
}

// Every output is computed: an output that is an input, a constant or another output becomes a
// copy.
void collect_outputs(const Graph& graph, FunctionRef<Value(const std::string&)> find,
                     DataType precision, OnnxModel& model) {
  // What loops read or write lies between nodes.
  const std::vector<Tensor> of_loops = computed_for(model.updates.repeats);
  for (const ValueInfo& info : graph.outputs) {
    const Value value = find(info.name);
    if (!value.defined()) throw_user_error("nothing makes the output '" + info.name + "'");
    if (!value.is_array())
      throw_user_error("the output '" + info.name + "' is " +
                           (value.is_sequence() ? "a sequence" : "an optional without a value") +
                           ", which is not supported",
                       {}, "make its elements outputs, by SequenceAt");
    Tensor tensor = value.tensor();
    if (precision != f32 && tensor.dtype() == precision && info.type == kFileFloat)
      tensor = ops::cast(tensor, f32, Where{});
    const auto is_it = [&](const Tensor& other) { return other.same_as(tensor); };
    const bool twice = std::any_of(model.outputs.begin(), model.outputs.end(), is_it);
    const bool of_loop = std::any_of(of_loops.begin(), of_loops.end(), is_it);
    if (twice || of_loop || tensor.op()->is_placeholder()) tensor = ops::identity(tensor, Where{});
    model.outputs.push_back(tensor);
    model.output_names.push_back(info.name);
  }
  if (model.outputs.empty()) throw_user_error("it has no outputs");
  collect_counts(graph, find, model);
}

// Collects constants that the outputs depend on. Inputs that they do not depend on are dropped.
void collect_constants(const ConstantPool& pool, OnnxModel& model) {
  std::unordered_set<const Operation*> reached;
  model.updates.repeats = needed_repeats(model.outputs, std::move(model.updates.repeats));
  std::vector<Tensor> open = model.outputs;
  const std::vector<Tensor> of_loops = computed_for(model.updates.repeats);
  open.insert(open.end(), of_loops.begin(), of_loops.end());
  while (!open.empty()) {
    const Tensor tensor = open.back();
    open.pop_back();
    if (!reached.insert(tensor.op()).second) continue;
    for (const Tensor& input : tensor.op()->inputs()) open.push_back(input);
  }
  for (size_t i = model.inputs.size(); i-- > 0;) {
    if (reached.count(model.inputs[i].op())) continue;
    const auto at = static_cast<std::ptrdiff_t>(i);
    model.unread.insert(model.unread.begin(), model.input_names[i]);
    model.inputs.erase(model.inputs.begin() + at);
    model.input_names.erase(model.input_names.begin() + at);
  }
  for (const auto& constant : pool.all()) {
    const Tensor& tensor = constant->tensor;
    if (!tensor || !tensor.op()->is_placeholder() || !reached.count(tensor.op())) continue;
    model.constants.push_back(tensor);
  }
}

}  // namespace

void collect(const Graph& graph, FunctionRef<Value(const std::string&)> find, DataType precision,
             const ConstantPool& pool, OnnxModel& model) {
  collect_outputs(graph, find, precision, model);
  collect_constants(pool, model);
}

}  // namespace heddle::onnx
