// Concatenation, slices, padding, repetition, triangles.
#include <algorithm>
#include <cstdint>
#include <iterator>

#include "heddle/ops/transform.h"
#include "onnx/narrow.h"
#include "onnx/node_scope.h"

namespace heddle::onnx {
namespace {

// Arrays without elements, which occur in shape arithmetic, are skipped.
std::vector<Value> concat(const NodeScope& s) {
  const int axis = s.axis(s.integer("axis"), s.rank(0));
  std::vector<Tensor> tensors;
  for (int i = 0; i < s.count(); ++i) {
    if (s.value(i).size() > 0) tensors.push_back(s.tensor(i));
  }
  if (tensors.empty()) return {s.value(0)};
  if (tensors.size() == 1) return {tensors[0]};
  return {ops::concat(tensors, axis, s.at())};
}

// The extents are an attribute or an input, or follow from the number of parts, of which the last
// may be smaller.
std::vector<Value> split(const NodeScope& s) {
  const int axis = s.axis(s.integer("axis", 0), s.rank(0));
  const int64_t extent = s.shape(0)[static_cast<size_t>(axis)];
  std::vector<int64_t> extents = s.integers_of_input_or(1, "split");
  if (extents.empty()) {
    const int64_t parts = s.integer("num_outputs", static_cast<int64_t>(s.node().outputs.size()));
    if (parts < 1 || parts > extent)
      s.fail("extent " + std::to_string(extent) + " cannot be split into " + std::to_string(parts));
    const int64_t each = (extent + parts - 1) / parts;
    for (int64_t begin = 0; begin < extent; begin += each)
      extents.push_back(std::min(each, extent - begin));
  }
  if (extents.size() < s.node().outputs.size())
    s.fail("it has " + std::to_string(s.node().outputs.size()) + " outputs, and " +
           std::to_string(extents.size()) + " parts");
  // Parts without elements are arrays, because no tensor is empty.
  std::vector<Value> parts;
  std::vector<int64_t> filled;
  for (const int64_t size : extents) {
    Extents shape = s.shape(0);
    shape[static_cast<size_t>(axis)] = size;
    const bool empty = size == 0 || s.value(0).size() == 0;
    parts.push_back(empty ? s.constant(NDArray::empty(shape, s.dtype(0))) : Value());
    if (!empty) filled.push_back(size);
  }
  if (filled.empty()) return parts;
  const std::vector<Tensor> tensors = ops::split(s.tensor(0), filled, axis, s.at());
  size_t next = 0;
  for (Value& part : parts) {
    if (!part.defined()) part = tensors[next++];
  }
  return parts;
}

// The number of elements that a slice of an extent of `n` has.
int64_t slice_extent(int64_t n, int64_t start, int64_t end, int64_t step) {
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
  const auto place = [&](int64_t v) {
    v = std::max(v, -n - 1);  // keeps INT64_MIN from wrapping
    return std::clamp(v < 0 ? v + n : v, low, high);
  };
  const int64_t length = step > 0 ? place(end) - place(start) : place(start) - place(end);
  const int64_t size = step > 0 ? step : -std::max(step, -(n + 1));
  return length <= 0 ? 0 : (length - 1) / size + 1;
}

std::vector<Value> slice(const NodeScope& s) {
  const bool by_inputs = s.has(1);
  const auto starts = by_inputs ? s.known_integers(1, "starts") : s.integers("starts");
  const auto ends = by_inputs ? s.known_integers(2, "ends") : s.integers("ends");
  const auto given = s.has(3) ? s.known_integers(3, "axes") : s.integers("axes");
  auto steps = s.has(4) ? s.known_integers(4, "steps") : std::vector<int64_t>{};
  // Steps beyond any extent have the same effect, so they are clamped.
  constexpr int64_t kFar = int64_t{1} << 40;
  for (int64_t& step : steps) step = std::clamp(step, -kFar, kFar);
  std::vector<int> axes;
  for (const int64_t axis : given) axes.push_back(s.axis(axis, s.rank(0)));
  if (starts.empty()) return {s.value(0)};
  // Shape arithmetic makes slices without elements. Only arrays can be empty, not tensors.
  Extents shape = s.shape(0);
  bool empty = false;
  for (size_t i = 0; i < starts.size() && i < ends.size(); ++i) {
    const size_t d = i < axes.size() ? static_cast<size_t>(axes[i]) : i;
    const int64_t step = i < steps.size() ? steps[i] : 1;
    if (d >= shape.size() || step == 0) break;
    shape[d] = slice_extent(s.shape(0)[d], starts[i], ends[i], step);
    empty = empty || shape[d] == 0;
  }
  if (empty) return {s.constant(NDArray::empty(shape, s.dtype(0)))};
  return {ops::slice(s.tensor(0), starts, ends, axes, steps, s.at())};
}

// A dimension that is not cut stays.
int follow_slice(const NodeScope& s, int input, int axis) {
  if (input != 0) return -1;
  std::vector<int64_t> axes = s.has(3) ? s.known_integers(3, "axes") : s.integers("axes");
  const size_t count =
      s.has(1) ? s.known_integers(1, "starts").size() : s.integers("starts").size();
  for (size_t d = axes.size(); d < count; ++d) axes.push_back(static_cast<int64_t>(d));
  for (const int64_t cut : axes) {
    if (s.axis(cut, s.rank(0)) == axis) return -1;
  }
  return axis;
}

// The counts are for some axes or all, before and after. Wrapped padding repeats the tensor.
std::vector<Value> pad(const NodeScope& s) {
  const std::vector<int64_t> pads = s.integers_of_input_or(1, "pads");
  const int rank = s.rank(0);
  std::vector<int> axes;
  if (s.has(3)) {
    for (const int64_t axis : s.known_integers(3, "axes")) axes.push_back(s.axis(axis, rank));
  } else {
    for (int d = 0; d < rank; ++d) axes.push_back(d);
  }
  if (pads.size() != 2 * axes.size())
    s.fail("it has " + std::to_string(pads.size()) + " pads for " + std::to_string(axes.size()) +
           " dimensions");
  std::vector<int64_t> before(static_cast<size_t>(rank), 0), after = before;
  for (size_t i = 0; i < axes.size(); ++i) {
    before[static_cast<size_t>(axes[i])] = pads[i];
    after[static_cast<size_t>(axes[i])] = pads[axes.size() + i];
  }
  const std::string mode = s.text("mode", "constant");
  const Tensor x = s.tensor(0);
  if (mode == "wrap") {
    Shape shape;
    for (int d = 0; d < rank; ++d)
      shape.emplace_back(x.extent(d) + before[static_cast<size_t>(d)] +
                         after[static_cast<size_t>(d)]);
    return {compute(
        shape,
        [&](const std::vector<Axis>& i) {
          std::vector<Expr> at;
          for (int d = 0; d < rank; ++d) {
            const int64_t n = x.extent(d), back = before[static_cast<size_t>(d)] % n;
            at.push_back(floormod(i[static_cast<size_t>(d)] + (n - back) % n, n));
          }
          return x.at(std::move(at));
        },
        "pad", "pad", s.at())};
  }
  ops::PadMode how = ops::PadMode::Constant;
  if (mode == "reflect")
    how = ops::PadMode::Reflect;
  else if (mode == "edge")
    how = ops::PadMode::Edge;
  else if (mode != "constant")
    s.fail("attribute 'mode' is '" + mode + "'");
  const double value = s.has(2) ? s.known_number(2, "value") : s.number("value", 0.0);
  return {ops::pad(x, before, after, how, narrowed(value, x.dtype()), s.at())};
}

std::vector<Value> tile(const NodeScope& s) {
  const std::vector<int64_t> repeats = s.known_integers(1, "repeats");
  for (const int64_t times : repeats) {
    if (times < 1) s.fail("it repeats " + std::to_string(times) + " times, and needs at least 1");
  }
  return {ops::tile(s.tensor(0), repeats, s.at())};
}

std::vector<Value> trilu(const NodeScope& s) {
  const int64_t k = s.has(1) ? s.known_integer(1, "diagonal") : 0;
  const bool upper = s.integer("upper", 1) != 0;
  // Diagonals beyond the matrix have the same effect, so they are clamped.
  const int64_t diagonal = std::clamp<int64_t>(k, -(int64_t{1} << 40), int64_t{1} << 40);
  return {upper ? ops::triu(s.tensor(0), diagonal, s.at())
                : ops::tril(s.tensor(0), diagonal, s.at())};
}

// The tensor is cropped or padded with zeros on both sides. An odd element is taken at the end.
std::vector<Value> center_crop_pad(const NodeScope& s) {
  const std::vector<int64_t> wanted = s.known_integers(1, "shape");
  std::vector<int64_t> axes = s.integers("axes");
  if (axes.empty()) {
    for (int d = 0; d < s.rank(0); ++d) axes.push_back(d);
  }
  if (wanted.size() != axes.size()) s.fail("the shape does not have an extent for each axis");
  std::vector<int64_t> before(static_cast<size_t>(s.rank(0)), 0), after = before;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto d = static_cast<size_t>(s.axis(axes[i], s.rank(0)));
    const int64_t more = wanted[i] - s.shape(0)[d];
    before[d] = more >= 0 ? more / 2 : -((-more) / 2);
    after[d] = more - before[d];
  }
  return {ops::pad(s.tensor(0), before, after, ops::PadMode::Constant, 0, s.at())};
}

}  // namespace

std::vector<OperatorEntry> part_operators() {
  return {
      {"CenterCropPad", center_crop_pad},
      {"Concat", concat},
      {"Pad", pad},
      {"Slice", slice, follow_slice},
      {"Split", split},
      {"Tile", tile},
      {"Trilu", trilu},
  };
}

}  // namespace heddle::onnx
