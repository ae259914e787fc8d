// Sequences and optionals. Their lengths are known, so nothing of them is left in a declaration.
#include <algorithm>

#include "onnx/node_scope.h"

namespace heddle::onnx {
namespace {

Attribute number(int64_t value) { return {value, ""}; }

/// The position that input `i` names in a sequence. `end` is the last one that is allowed.
size_t position(const NodeScope& s, int i, size_t size, size_t end) {
  const int64_t given = s.known_integer(i, "position");
  const int64_t at = given < 0 ? given + static_cast<int64_t>(size) : given;
  if (at < 0 || at > static_cast<int64_t>(end) || (end < size && size == 0))
    s.fail("position " + std::to_string(given) + " is not in its sequence of " +
           std::to_string(size) + " elements");
  return static_cast<size_t>(at);
}

std::vector<Value> construct(const NodeScope& s) {
  std::vector<Value> elements;
  for (int i = 0; i < s.count(); ++i) elements.push_back(s.exact(i));
  return {Value::sequence(std::move(elements))};
}

std::vector<Value> empty(const NodeScope&) { return {Value::sequence({})}; }

std::vector<Value> at(const NodeScope& s) {
  const std::vector<Value>& elements = s.sequence(0);
  if (elements.empty()) s.fail("its sequence has no elements");
  return {elements[position(s, 1, elements.size(), elements.size() - 1)]};
}

std::vector<Value> erase(const NodeScope& s) {
  std::vector<Value> elements = s.sequence(0);
  if (elements.empty()) s.fail("its sequence has no elements");
  const size_t last = elements.size() - 1;
  const size_t where = s.has(1) ? position(s, 1, elements.size(), last) : last;
  elements.erase(elements.begin() + static_cast<std::ptrdiff_t>(where));
  return {Value::sequence(std::move(elements))};
}

std::vector<Value> insert(const NodeScope& s) {
  std::vector<Value> elements = s.sequence(0);
  const size_t size = elements.size();
  const size_t where = s.has(2) ? position(s, 2, size, size) : size;
  elements.insert(elements.begin() + static_cast<std::ptrdiff_t>(where), s.exact(1));
  return {Value::sequence(std::move(elements))};
}

std::vector<Value> length(const NodeScope& s) {
  const auto size = static_cast<int64_t>(s.sequence(0).size());
  return {s.constant(array_of_integers({size}, {}))};
}

std::vector<Value> concat(const NodeScope& s) {
  std::vector<Value> elements = s.sequence(0);
  if (elements.empty()) s.fail("its sequence has no elements");
  const int64_t axis = s.integer("axis");
  if (s.integer("new_axis", 0) != 0) {
    for (Value& element : elements) element = s.part("Unsqueeze", {element, s.constant({axis})});
  }
  return {s.part("Concat", elements, {{"axis", number(axis)}})};
}

// The extents of the parts are a list, or one number of which the last part has what is left.
// Without them each index is a part, whose dimension may be dropped.
std::vector<Value> split(const NodeScope& s) {
  const int axis = s.axis(s.integer("axis", 0), s.rank(0));
  const int64_t extent = s.shape(0)[static_cast<size_t>(axis)];
  std::vector<int64_t> extents;
  if (s.has(1) && s.shape(1).size() == 1) {
    extents = s.known_integers(1, "extents");
  } else {
    const int64_t each = s.has(1) ? s.known_integer(1, "extent") : 1;
    if (each < 1) s.fail("its parts have the extent " + std::to_string(each));
    for (int64_t begin = 0; begin < extent; begin += each)
      extents.push_back(std::min(each, extent - begin));
  }
  const bool drop = !s.has(1) && s.integer("keepdims", 1) == 0;
  std::vector<Value> parts;
  int64_t begin = 0;
  for (const int64_t size : extents) {
    Value part = s.part("Slice", {s.value(0), s.constant({begin}), s.constant({begin + size}),
                                  s.constant({int64_t{axis}})});
    if (drop) part = s.part("Squeeze", {part, s.constant({int64_t{axis}})});
    parts.push_back(std::move(part));
    begin += size;
  }
  if (begin != extent)
    s.fail("its parts have " + std::to_string(begin) + " elements, and its input " +
           std::to_string(extent));
  return {Value::sequence(std::move(parts))};
}

// A graph of each element of a sequence. Further sequences are walked along, and other inputs are
// the same each time.
std::vector<Value> sequence_map(const NodeScope& s) {
  const Graph& body = s.graph("body");
  const size_t count = s.sequence(0).size();
  std::vector<std::vector<Value>> results(body.outputs.size());
  for (size_t e = 0; e < count; ++e) {
    std::vector<Value> inputs;
    for (int i = 0; i < s.count(); ++i) {
      const Value& input = s.exact(i);
      if (input.is_sequence() && input.elements().size() != count)
        s.fail("its sequences have " + std::to_string(count) + " and " +
               std::to_string(input.elements().size()) + " elements");
      inputs.push_back(input.is_sequence() ? input.elements()[e] : input);
    }
    const std::vector<Value> made = s.declare(body, inputs);
    for (size_t o = 0; o < made.size(); ++o) results[o].push_back(made[o]);
  }
  std::vector<Value> sequences;
  for (std::vector<Value>& elements : results)
    sequences.push_back(Value::sequence(std::move(elements)));
  return sequences;
}

std::vector<Value> optional(const NodeScope& s) {
  return {s.has(0) ? s.exact(0) : Value::nothing()};
}

std::vector<Value> has_element(const NodeScope& s) {
  const bool has = s.has(0) && !s.any_value(0).is_nothing();
  return {s.constant(NDArray::full({}, boolean, has ? 1 : 0))};
}

std::vector<Value> get_element(const NodeScope& s) {
  if (s.any_value(0).is_nothing()) s.fail("its optional has no value");
  return {s.exact(0)};
}

}  // namespace

std::vector<OperatorEntry> sequence_operators() {
  return {{"ConcatFromSequence", concat},
          {"Optional", optional},
          {"OptionalGetElement", get_element},
          {"OptionalHasElement", has_element},
          {"SequenceAt", at},
          {"SequenceConstruct", construct},
          {"SequenceEmpty", empty},
          {"SequenceErase", erase},
          {"SequenceInsert", insert},
          {"SequenceLength", length},
          {"SequenceMap", sequence_map},
          {"SplitToSequence", split}};
}

}  // namespace heddle::onnx
