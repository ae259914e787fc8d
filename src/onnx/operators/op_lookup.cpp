// Gathers by index.
#include "heddle/ops/elementwise.h"
#include "heddle/ops/transform.h"
#include "onnx/node_scope.h"

namespace heddle::onnx {
namespace {

std::vector<Value> gather(const NodeScope& s) {
  return {ops::gather(s.tensor(0), s.tensor(1), s.axis(s.integer("axis", 0), s.rank(0)), s.at())};
}

// A dimension of the indices takes the place of the axis, and others of the data stay.
int follow_gather(const NodeScope& s, int input, int axis) {
  const int at = s.axis(s.integer("axis", 0), s.rank(0));
  if (input == 1) return at + axis;
  return axis == at ? -1 : axis < at ? axis : axis + s.rank(1) - 1;
}

std::vector<Value> gather_elements(const NodeScope& s) {
  return {ops::gather_elements(s.tensor(0), s.tensor(1), s.axis(s.integer("axis", 0), s.rank(0)),
                               s.at())};
}

std::vector<Value> one_hot(const NodeScope& s) {
  const int64_t depth = static_cast<int64_t>(s.known_number(1, "depth"));
  const NDArray& values = s.known(2, "values");
  if (values.size() != 2) s.fail("it needs two values, off and on");
  Tensor indices = s.tensor(0);
  if (indices.dtype().is_float()) indices = ops::cast(indices, i64, s.at());
  return {ops::one_hot(indices, depth, s.axis(s.integer("axis", -1), s.rank(0) + 1), values.get(1),
                       values.get(0), values.dtype(), s.at())};
}

std::vector<Value> cumsum(const NodeScope& s) {
  const int axis = s.axis(s.known_integer(1, "axis"), s.rank(0));
  return {ops::cumsum(s.tensor(0), axis, s.integer("exclusive", 0) != 0,
                      s.integer("reverse", 0) != 0, s.at())};
}

}  // namespace

std::vector<OperatorEntry> lookup_operators() {
  return {
      {"CumSum", cumsum},
      {"Gather", gather, follow_gather},
      {"GatherElements", gather_elements},
      {"OneHot", one_hot},
  };
}

}  // namespace heddle::onnx
