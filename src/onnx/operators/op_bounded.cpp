// Operators whose results have a length that the data decides. Where the data are known, so is the length;
// else results are as long as they can become, and the number of their rows is a tensor.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "heddle/ops/bounded.h"
#include "heddle/ops/elementwise.h"
#include "heddle/ops/transform.h"
#include "onnx/node_scope.h"

namespace heddle::onnx {
namespace {

Value open(const Tensor& values, int axis, const Tensor& count) {
  return Value::with_rows(values, {axis, count});
}

/// The positions of a known array that are not 0.
std::vector<int64_t> positions_of(const NDArray& array) {
  std::vector<int64_t> found;
  for (int64_t i = 0; i < array.size(); ++i) {
    if (array.get(i) != 0) found.push_back(i);
  }
  return found;
}

std::vector<Value> non_zero(const NodeScope& s) {
  if (!s.value(0).known()) {
    const ops::Bounded b = ops::nonzero(s.tensor(0), s.at());
    return {open(b.values, 1, b.count)};
  }
  const NDArray& array = s.value(0).array();
  const std::vector<int64_t> found = positions_of(array);
  const auto rank = static_cast<int64_t>(array.shape().size());
  const auto count = static_cast<int64_t>(found.size());
  std::vector<int64_t> values(static_cast<size_t>(rank * count));
  const Extents strides = array.strides();
  for (int64_t d = 0; d < rank; ++d) {
    for (int64_t i = 0; i < count; ++i) {
      values[static_cast<size_t>(d * count + i)] = found[static_cast<size_t>(i)] /
                                                   strides[static_cast<size_t>(d)] %
                                                   array.extent(static_cast<int>(d));
    }
  }
  return {s.constant(array_of_integers(values, {rank, count}))};
}

// Without an axis the input is flattened.
std::vector<Value> compress(const NodeScope& s) {
  const bool flat = !s.has_attribute("axis");
  const int axis = flat ? 0 : s.axis(s.integer("axis"), s.rank(0));
  const int64_t extent = flat ? s.value(0).size() : s.shape(0)[static_cast<size_t>(axis)];
  if (s.value(1).size() > extent || s.rank(1) != 1)
    s.fail("the condition " + shape_text(s.shape(1)) + " is longer than dimension " +
           std::to_string(axis) + ", or no row");
  if (!s.value(1).known()) {
    const Tensor x = flat ? ops::reshape(s.tensor(0), {extent}, s.at()) : s.tensor(0);
    const ops::Bounded b = ops::compress(x, s.tensor(1), axis, s.at());
    return {open(b.values, axis, b.count)};
  }
  const std::vector<int64_t> kept = positions_of(s.value(1).array());
  if (kept.empty()) {
    Extents shape = flat ? Extents{0} : s.shape(0);
    shape[static_cast<size_t>(axis)] = 0;
    return {s.constant(NDArray::empty(shape, s.dtype(0)))};
  }
  const auto count = static_cast<int64_t>(kept.size());
  const Value indices = s.constant(array_of_integers(kept, {count}));
  if (flat) return {ops::take(s.tensor(0), indices.tensor(), s.at())};
  return {ops::gather(s.tensor(0), indices.tensor(), axis, s.at())};
}

/// The different slices of a known array along a dimension.
class KnownUnique {
 public:
  KnownUnique(const NDArray& array, int axis) : array_(array), axis_(axis) {
    const auto d = static_cast<size_t>(axis);
    const Extents& shape = array.shape();
    inner_ =
        std::accumulate(shape.begin() + axis + 1, shape.end(), int64_t{1}, std::multiplies<>());
    outer_ = std::accumulate(shape.begin(), shape.begin() + axis, int64_t{1}, std::multiplies<>());
    extent_ = shape[d];
  }

  std::vector<Value> results(const NodeScope& s, bool sorted) {
    std::vector<int64_t> order(static_cast<size_t>(extent_));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return compared(a, b) < 0; });
    std::vector<std::vector<int64_t>> groups;
    for (size_t i = 0; i < order.size(); ++i) {
      if (i == 0 || compared(order[i - 1], order[i]) != 0) groups.emplace_back();
      groups.back().push_back(order[i]);
    }
    if (!sorted) {
      std::sort(groups.begin(), groups.end(),
                [](const auto& a, const auto& b) { return a[0] < b[0]; });
    }
    std::vector<int64_t> first, counts, inverse(order.size());
    for (size_t g = 0; g < groups.size(); ++g) {
      first.push_back(groups[g][0]);
      counts.push_back(static_cast<int64_t>(groups[g].size()));
      for (const int64_t i : groups[g]) inverse[static_cast<size_t>(i)] = static_cast<int64_t>(g);
    }
    return {s.constant(taken(first)), s.constant(first), s.constant(inverse), s.constant(counts)};
  }

 private:
  /// Negative, 0 or positive, as slice a is before, like or behind slice b.
  int compared(int64_t a, int64_t b) const {
    for (int64_t o = 0; o < outer_; ++o) {
      for (int64_t i = 0; i < inner_; ++i) {
        const auto at = [&](int64_t e) { return (o * extent_ + e) * inner_ + i; };
        if (array_.dtype() == i64) {
          const auto* values = array_.data<int64_t>();
          if (values[at(a)] != values[at(b)]) return values[at(a)] < values[at(b)] ? -1 : 1;
          continue;
        }
        const double x = array_.get(at(a)), y = array_.get(at(b));
        if (std::isnan(x) != std::isnan(y)) return std::isnan(y) ? -1 : 1;  // NaN is the largest
        if (x != y && !std::isnan(x)) return x < y ? -1 : 1;
      }
    }
    return 0;
  }

  NDArray taken(const std::vector<int64_t>& which) const {
    Extents shape = array_.shape();
    shape[static_cast<size_t>(axis_)] = static_cast<int64_t>(which.size());
    NDArray result = NDArray::empty(shape, array_.dtype());
    const int64_t bytes = inner_ * array_.dtype().bytes();
    auto* to = static_cast<char*>(result.data());
    const auto* from = static_cast<const char*>(array_.data());
    for (int64_t o = 0; o < outer_; ++o) {
      for (const int64_t i : which) {
        std::memcpy(to, from + (o * extent_ + i) * bytes, static_cast<size_t>(bytes));
        to += bytes;
      }
    }
    return result;
  }

  const NDArray& array_;
  int axis_;
  int64_t outer_ = 1, extent_ = 1, inner_ = 1;
};

std::vector<Value> unique(const NodeScope& s) {
  const bool sorted = s.integer("sorted", 1) != 0, flat = !s.has_attribute("axis");
  const int axis = flat ? 0 : s.axis(s.integer("axis"), s.rank(0));
  const int64_t n = s.value(0).size();
  if (s.value(0).known()) {
    const NDArray array = flat ? s.value(0).array().view({n}) : s.value(0).array();
    return KnownUnique(array, axis).results(s, sorted);
  }
  if (!flat && s.rank(0) != 1)
    s.fail("different slices of a tensor that depends on the inputs of the model are not supported",
           "without attribute 'axis' different elements are");
  const ops::Unique u = ops::unique(ops::reshape(s.tensor(0), {n}, s.at()), sorted, s.at());
  return {open(u.values, 0, u.count), open(u.first, 0, u.count), u.inverse,
          open(u.counts, 0, u.count)};
}

std::vector<Value> non_max_suppression(const NodeScope& s) {
  const int64_t most = s.has(2) ? s.known_integer(2, "largest number of boxes") : 0;
  if (most <= 0) return {s.constant(NDArray::empty({0, 3}, i64))};
  const ops::Bounded b =
      ops::non_max_suppression(s.tensor(0), s.tensor(1),
                               {.most = most,
                                .overlap = s.has(3) ? s.known_number(3, "overlap") : 0.0,
                                .centred = s.integer("center_point_box", 0) != 0},
                               s.optional_tensor(4), s.at());
  return {open(b.values, 0, b.count)};
}

}  // namespace

std::vector<OperatorEntry> bounded_operators() {
  return {{"Compress", compress},
          {"NonMaxSuppression", non_max_suppression},
          {"NonZero", non_zero},
          {"Unique", unique}};
}

}  // namespace heddle::onnx
