#include "onnx/node_scope.h"

#include <algorithm>
#include <utility>

#include "heddle/ops/elementwise.h"
#include "heddle/support/error.h"

namespace heddle::onnx {

std::string shape_text(const Extents& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + ")";
}

void NodeScope::fail(const std::string& message, const std::string& help) const {
  throw_user_error(message, {}, help);
}

bool NodeScope::has(int i) const {
  return i < count() && inputs_[static_cast<size_t>(i)].defined();
}

const Value& NodeScope::any_value(int i) const {
  if (!has(i)) fail("input " + std::to_string(i) + " is missing");
  return inputs_[static_cast<size_t>(i)];
}

const Value& NodeScope::exact(int i) const {
  any_value(i);
  return exact_[static_cast<size_t>(i)];
}

const Value& NodeScope::value(int i) const {
  const Value& value = any_value(i);
  if (!value.is_array())
    fail("input " + std::to_string(i) + " is " +
         (value.is_nothing() ? "an optional without a value" : "a sequence") +
         ", and needs to be a tensor");
  return value;
}

const std::vector<Value>& NodeScope::sequence(int i) const {
  if (!any_value(i).is_sequence()) fail("input " + std::to_string(i) + " is no sequence");
  return any_value(i).elements();
}

const NDArray& NodeScope::known(int i, const char* what) const {
  if (!value(i).known())
    fail(std::string("the ") + what + " ('" + node_.inputs[static_cast<size_t>(i)] +
             "') depends on the inputs of the model",
         "what decides shapes must be known at import");
  return exact_[static_cast<size_t>(i)].array();
}

std::vector<int64_t> NodeScope::known_integers(int i, const char* what) const {
  const NDArray& array = known(i, what);
  if (!array.dtype().is_integral())
    fail(std::string("the ") + what + " has elements of type " + to_string(array.dtype()) +
         ", and needs integers");
  return integers_of(array);
}

int64_t NodeScope::known_integer(int i, const char* what) const {
  const std::vector<int64_t> values = known_integers(i, what);
  if (values.size() != 1)
    fail(std::string("the ") + what + " has " + std::to_string(values.size()) +
         " elements, and needs one");
  return values[0];
}

double NodeScope::known_number(int i, const char* what) const {
  const NDArray& array = known(i, what);
  if (array.size() != 1)
    fail(std::string("the ") + what + " has " + std::to_string(array.size()) +
         " elements, and needs one");
  return array.get(0);
}

const AttributeValue* NodeScope::find(const char* name) const {
  const auto found = node_.attributes.find(name);
  if (found == node_.attributes.end() ||
      std::holds_alternative<std::monostate>(found->second.value))
    return nullptr;
  return &found->second.value;
}

namespace {

template <class T>
T attribute(const NodeScope& scope, const char* name, const char* kind,
            const std::optional<T>& usual) {
  const AttributeValue* value = scope.find(name);
  if (value == nullptr) {
    if (!usual) scope.fail("attribute '" + std::string(name) + "' is missing");
    return *usual;
  }
  if (const T* typed = std::get_if<T>(value)) return *typed;
  scope.fail("attribute '" + std::string(name) + "' is not " + kind);
}

}  // namespace

int64_t NodeScope::integer(const char* name, std::optional<int64_t> usual) const {
  return attribute<int64_t>(*this, name, "an integer", usual);
}

double NodeScope::number(const char* name, std::optional<double> usual) const {
  if (find(name) == nullptr && usual) return *usual;
  return static_cast<double>(attribute<float>(*this, name, "a number", std::nullopt));
}

std::string NodeScope::text(const char* name, std::optional<std::string> usual) const {
  return attribute<std::string>(*this, name, "a text", usual);
}

std::vector<int64_t> NodeScope::integers(const char* name, std::vector<int64_t> usual) const {
  return attribute<std::vector<int64_t>>(*this, name, "a list of integers", std::move(usual));
}

std::vector<float> NodeScope::numbers(const char* name) const {
  return attribute<std::vector<float>>(*this, name, "a list of numbers", std::vector<float>{});
}

std::vector<std::string> NodeScope::texts(const char* name, std::vector<std::string> usual) const {
  return attribute<std::vector<std::string>>(*this, name, "a list of texts", std::move(usual));
}

const Graph& NodeScope::graph(const char* name) const {
  const AttributeValue* value = find(name);
  const Subgraph* graph = value == nullptr ? nullptr : std::get_if<Subgraph>(value);
  if (graph == nullptr) fail("attribute '" + std::string(name) + "' is no graph");
  return **graph;
}

std::vector<int64_t> NodeScope::integers_of_input_or(int i, const char* name) const {
  return has(i) ? known_integers(i, name) : integers(name);
}

int NodeScope::axis(int64_t axis, int rank) const {
  if (axis < -rank || axis >= rank)
    fail("axis " + std::to_string(axis) + " does not exist: there are " + std::to_string(rank) +
         " dimensions");
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Value NodeScope::constant(NDArray array) const {
  return pool_.add(std::move(array), node_.outputs.empty() ? node_.op : node_.outputs[0]);
}

Value NodeScope::constant(const std::vector<int64_t>& values) const {
  return constant(array_of_integers(values, {static_cast<int64_t>(values.size())}));
}

int follow_elements(const NodeScope& s, int input, int axis) {
  int rank = 0;
  for (int i = 0; i < s.count(); ++i) rank = std::max(rank, s.has(i) ? s.rank(i) : 0);
  // A single row may be broadcast to others.
  if (s.shape(input)[static_cast<size_t>(axis)] == 1) return -1;
  return axis + rank - s.rank(input);
}

Value NodeScope::elementwise(const std::string& name, FunctionRef<Expr(const std::vector<Expr>&)> f,
                             int mixed) const {
  int highest = 0;  // the largest rank of inputs that are not constant
  bool any_tensor = false;
  for (int i = 0; i < count(); ++i) {
    if (i > mixed && dtype(i) != dtype(mixed))
      fail("its inputs have the types " + to_string(dtype(mixed)) + " and " + to_string(dtype(i)));
    if (value(i).is_immediate()) continue;
    any_tensor = true;
    highest = std::max(highest, rank(i));
  }
  std::vector<Tensor> tensors;
  std::vector<bool> inlined;
  for (int i = 0; i < count(); ++i) {
    inlined.push_back(any_tensor && value(i).is_immediate() && rank(i) <= highest);
    if (!inlined.back()) tensors.push_back(tensor(i));
  }
  return ops::elementwise(
      name, tensors,
      [&](const std::vector<Expr>& values) {
        std::vector<Expr> all;
        size_t next = 0;
        for (int i = 0; i < count(); ++i)
          all.push_back(inlined[static_cast<size_t>(i)] ? value(i).immediate() : values[next++]);
        return f(all);
      },
      at());
}

}  // namespace heddle::onnx
