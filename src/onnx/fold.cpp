#include "onnx/fold.h"

#include <algorithm>
#include <utility>

#include "heddle/codegen/interpreter.h"

namespace heddle::onnx {
namespace {

// The largest numbers of elements of nodes that are computed at import, so that the interpreter
// takes no noticeable time.
constexpr int64_t kMostFoldedInputs = 1 << 15, kMostFoldedOutputs = 1 << 16;

void for_each_array(const std::vector<Value>& values, FunctionRef<void(const Value&)> f) {
  for (const Value& value : values) {
    (void)value.map_arrays([&](const Value& v) {
      f(v);
      return v;
    });
  }
}

/// Whether bytes become floats, as weights do that a tool quantised. Products of bytes need them
/// as they are.
bool widens_bytes(const std::vector<Value>& inputs, const std::vector<Value>& outputs) {
  return std::any_of(inputs.begin(), inputs.end(), [&](const Value& input) {
    return input.is_array() && input.size() > 1 && input.dtype().is_integral() &&
           input.dtype().bits == 8 && outputs.size() == 1 && outputs[0].is_array() &&
           outputs[0].dtype().is_float() && outputs[0].size() == input.size();
  });
}

bool folds(const Node& node, int64_t read, int64_t written, ImportNotes* notes) {
  const bool small = read <= kMostFoldedInputs && written <= kMostFoldedOutputs;
  if (notes == nullptr) return small;
  if (!small) notes->unfolded.insert(node.outputs.at(0));
  return notes->unfolded.count(node.outputs.at(0)) == 0;
}

/// Whether declarations read the result as a formula: positions, not weights. With ranges of sizes that is decided
/// at the largest; a result that has another form at others is not computed at import at all.
bool is_formula(const Value& value, const std::string& name, ImportNotes* notes) {
  constexpr int64_t kFewest = 3;  // two elements always grow evenly
  const bool even = value.grows_evenly();
  if (notes == nullptr) return even && value.size() >= kFewest;
  const bool at_largest = notes->even.emplace(name, even && value.size() >= kFewest).first->second;
  const bool one = value.size() <= 1;
  if (at_largest && !even && !one) notes->unfolded.insert(name);
  return at_largest && even;
}

}  // namespace

bool all_known(const std::vector<Value>& values) {
  return std::all_of(values.begin(), values.end(), [](const Value& v) {
    return v.is_sequence() ? all_known(v.elements()) : !v.is_array() || v.known();
  });
}

std::vector<Value> folded(const Node& node, const std::vector<Value>& inputs,
                          std::vector<Value> outputs, ConstantPool& pool, ImportNotes* notes) {
  if (!all_known(inputs) || !graphs_in(node).empty()) return outputs;
  int64_t read = 0, written = 0;
  std::vector<TensorValue> known;
  for_each_array(inputs, [&](const Value& input) {
    read += input.size();
    if (input.size() > 1 && input.tensor().op()->is_placeholder())
      known.push_back({input.tensor(), input.array()});
  });
  std::vector<Tensor> tensors;
  for_each_array(outputs, [&](const Value& output) {
    written += output.size();
    if (!output.known()) tensors.push_back(output.tensor());
  });
  if (tensors.empty() || !folds(node, read, written, notes) || widens_bytes(inputs, outputs))
    return outputs;
  std::vector<NDArray> arrays = interpret(tensors, known);
  size_t next = 0;
  for (size_t o = 0; o < outputs.size(); ++o) {
    const std::string name = o < node.outputs.size() ? node.outputs[o] : node.op;
    if (notes != nullptr) notes->folded.insert(name);
    outputs[o] = outputs[o].map_arrays([&](const Value& v) {
      if (v.known()) return v;
      const Value made = pool.add(arrays[next++], name, v.is_of_four_bits());
      return is_formula(made, name, notes) ? made.as_formula() : made;
    });
  }
  return outputs;
}

}  // namespace heddle::onnx
