// Scatters, gathers by several indices, sorting by value, running products.
#include <algorithm>

#include "heddle/ops/elementwise.h"
#include "heddle/ops/scatter.h"
#include "heddle/ops/sort.h"
#include "heddle/ops/transform.h"
#include "onnx/node_scope.h"

namespace heddle::onnx {
namespace {

ops::ScatterReduction reduction_of(const NodeScope& s) {
  const std::string name = s.text("reduction", "none");
  if (name == "none") return ops::ScatterReduction::Replace;
  if (name == "add") return ops::ScatterReduction::Add;
  if (name == "mul") return ops::ScatterReduction::Mul;
  if (name == "max") return ops::ScatterReduction::Max;
  if (name == "min") return ops::ScatterReduction::Min;
  s.fail("attribute 'reduction' is '" + name + "'");
}

std::vector<Value> gather_nd(const NodeScope& s) {
  return {ops::gather_nd(s.tensor(0), s.tensor(1), static_cast<int>(s.integer("batch_dims", 0)),
                         s.at())};
}

// Rows of the indices are rows of the result.
int follow_gather_nd(const NodeScope& s, int input, int axis) {
  return input == 1 && axis < s.rank(1) - 1 ? axis : -1;
}

std::vector<Value> scatter_elements(const NodeScope& s) {
  const int axis = s.axis(s.integer("axis", 0), s.rank(0));
  return {
      ops::scatter_elements(s.tensor(0), s.tensor(1), s.tensor(2), axis, reduction_of(s), s.at())};
}

std::vector<Value> scatter_nd(const NodeScope& s) {
  return {ops::scatter_nd(s.tensor(0), s.tensor(1), s.tensor(2), reduction_of(s), s.at())};
}

// The number of elements was an attribute up to opset 9.
std::vector<Value> top_k(const NodeScope& s) {
  const int axis = s.axis(s.integer("axis", -1), s.rank(0));
  const int64_t k = s.has(1) ? s.known_integer(1, "k") : s.integer("k");
  const ops::Sorted sorted = ops::top_k(s.tensor(0), k, axis, s.integer("largest", 1) != 0, s.at());
  return {sorted.values, sorted.positions};
}

// By doubling: after step n each element is the product of the 2^n elements that end with it.
std::vector<Value> cum_prod(const NodeScope& s) {
  const int axis = s.axis(s.known_integer(1, "axis"), s.rank(0));
  const bool exclusive = s.integer("exclusive", 0) != 0, reverse = s.integer("reverse", 0) != 0;
  Tensor x = s.tensor(0);
  const auto d = static_cast<size_t>(axis);
  const int64_t n = x.extent(axis);
  const auto shifted = [&](const Tensor& t, int64_t by, bool keep) {
    return compute(
        t.shape(),
        [&](const std::vector<Axis>& i) {
          std::vector<Expr> at(i.begin(), i.end());
          at[d] = reverse ? at[d] + by : at[d] - by;
          const Expr inside = reverse ? Expr(i[d] < n - by) : Expr(i[d] >= by);
          const Expr other = select(inside, t.at(std::move(at)), make_const(t.dtype(), 1));
          return keep ? t(i) * other : other;
        },
        "cumprod", "cumprod", s.at());
  };
  if (exclusive) x = shifted(x, 1, false);
  for (int64_t by = 1; by < n; by *= 2) x = shifted(x, by, true);
  return {x};
}

// Reverses a part of each sequence along the time axis.
std::vector<Value> reverse_sequence(const NodeScope& s) {
  const int time = s.axis(s.integer("time_axis", 0), s.rank(0));
  const int batch = s.axis(s.integer("batch_axis", 1), s.rank(0));
  const Tensor x = s.tensor(0), lengths = s.tensor(1);
  if (lengths.rank() != 1 || lengths.extent(0) != x.extent(batch))
    s.fail("the lengths " + shape_text(lengths.extents()) + " are not one a sequence");
  const int64_t n = x.extent(time);
  return {compute(
      x.shape(),
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> at(i.begin(), i.end());
        Expr& t = at[static_cast<size_t>(time)];
        const Expr length = cast(i64, lengths(i[static_cast<size_t>(batch)]));
        t = heddle::max(heddle::min(select(t < length, length - 1 - t, t), Expr(n - 1)), Expr(0));
        return x.at(std::move(at));
      },
      "reverse_sequence", "reverse_sequence", s.at())};
}

}  // namespace

std::vector<OperatorEntry> scatter_operators() {
  return {
      {"CumProd", cum_prod},
      {"GatherND", gather_nd, follow_gather_nd},
      {"ReverseSequence", reverse_sequence},
      {"Scatter", scatter_elements},
      {"ScatterElements", scatter_elements},
      {"ScatterND", scatter_nd},
      {"TopK", top_k},
  };
}

}  // namespace heddle::onnx
