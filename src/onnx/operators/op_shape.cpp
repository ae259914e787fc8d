// Operators that give the same elements another shape or order.
#include <algorithm>
#include <numeric>

#include "heddle/ops/transform.h"
#include "onnx/node_scope.h"

namespace heddle::onnx {
namespace {

// Reshapes a value. A known array stays known.
Value reshaped(const NodeScope& s, const Extents& shape) {
  if (shape == s.shape(0)) return s.value(0);
  if (s.value(0).known()) return s.constant(s.value(0).array().view(shape));
  return ops::reshape(s.tensor(0), shape, s.at());
}

std::vector<Value> reshape(const NodeScope& s) {
  const Extents from = s.shape(0);
  Extents shape = s.integers_of_input_or(1, "shape");
  const bool keep_zeros = s.integer("allowzero", 0) != 0;
  int64_t known = 1, open = -1;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0 && !keep_zeros) {
      if (d >= from.size())
        s.fail("extent " + std::to_string(d) +
               " of the shape is 0, and the input has no such dimension");
      shape[d] = from[d];
    }
    if (shape[d] == -1 && open < 0) {
      open = static_cast<int64_t>(d);
    } else if (shape[d] < 0) {
      s.fail("the shape " + shape_text(shape) + " has extents that are no numbers of elements");
    } else if (__builtin_mul_overflow(known, shape[d], &known)) {
      s.fail("the shape " + shape_text(shape) + " is too large");
    }
  }
  const int64_t elements = s.value(0).size();
  if (open >= 0) {
    if (known == 0 || elements % known != 0)
      s.fail("the shape " + shape_text(shape) + " does not fit " + shape_text(from));
    shape[static_cast<size_t>(open)] = elements / known;
  } else if (known != elements) {
    s.fail("the shape " + shape_text(shape) + " has " + std::to_string(known) +
           " elements, and the input " + shape_text(from) + " has " + std::to_string(elements));
  }
  return {reshaped(s, shape)};
}

std::vector<Value> flatten(const NodeScope& s) {
  const Extents from = s.shape(0);
  const auto rank = static_cast<int64_t>(from.size());
  int64_t axis = s.integer("axis", 1);
  if (axis < -rank || axis > rank) s.fail("axis " + std::to_string(axis) + " does not exist");
  if (axis < 0) axis += rank;
  const auto part = [&](int64_t begin, int64_t end) {
    return std::accumulate(from.begin() + begin, from.begin() + end, int64_t{1},
                           std::multiplies<>());
  };
  return {reshaped(s, {part(0, axis), part(axis, rank)})};
}

std::vector<int> axes_of(const NodeScope& s, int rank) {
  std::vector<int> axes;
  for (const int64_t axis : s.integers_of_input_or(1, "axes")) axes.push_back(s.axis(axis, rank));
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) s.fail("an axis is given twice");
  return axes;
}

std::vector<Value> squeeze(const NodeScope& s) {
  const Extents from = s.shape(0);
  const bool all = !s.has(1) && !s.has_attribute("axes");
  const std::vector<int> axes = all ? std::vector<int>{} : axes_of(s, s.rank(0));
  Extents shape;
  for (int d = 0; d < s.rank(0); ++d) {
    const int64_t extent = from[static_cast<size_t>(d)];
    const bool listed = std::binary_search(axes.begin(), axes.end(), d);
    if (listed && extent != 1)
      s.fail("dimension " + std::to_string(d) + " of " + shape_text(from) + " has not extent 1");
    if (!(listed || (all && extent == 1))) shape.push_back(extent);
  }
  return {reshaped(s, shape)};
}

int follow_squeeze(const NodeScope& s, int input, int axis) {
  if (input != 0 || (!s.has(1) && !s.has_attribute("axes"))) return -1;
  const std::vector<int> axes = axes_of(s, s.rank(0));
  const auto at = std::lower_bound(axes.begin(), axes.end(), axis);
  if (at != axes.end() && *at == axis) return -1;
  return axis - static_cast<int>(at - axes.begin());
}

int follow_unsqueeze(const NodeScope& s, int input, int axis) {
  if (input != 0) return -1;
  const auto added = static_cast<int>(s.integers_of_input_or(1, "axes").size());
  for (const int at : axes_of(s, s.rank(0) + added)) axis += at <= axis ? 1 : 0;
  return axis;
}

std::vector<Value> unsqueeze(const NodeScope& s) {
  Extents shape = s.shape(0);
  const auto added = static_cast<int>(s.integers_of_input_or(1, "axes").size());
  for (const int axis : axes_of(s, s.rank(0) + added)) shape.insert(shape.begin() + axis, 1);
  return {reshaped(s, shape)};
}

int follow_transpose(const NodeScope& s, int, int axis) {
  const std::vector<int64_t> perm = s.integers("perm");
  if (perm.empty()) return s.rank(0) - 1 - axis;
  const auto at = std::find(perm.begin(), perm.end(), axis);
  return at == perm.end() ? -1 : static_cast<int>(at - perm.begin());
}

std::vector<Value> transpose(const NodeScope& s) {
  std::vector<int> perm;
  for (const int64_t d : s.integers("perm")) perm.push_back(s.axis(d, s.rank(0)));
  if (s.rank(0) < 2) return {s.value(0)};
  return {ops::transpose(s.tensor(0), perm, s.at())};
}

// Both shapes are broadcast: where the wanted shape has an extent of 1, the input's extent is kept.
std::vector<Value> expand(const NodeScope& s) {
  Extents shape = s.known_integers(1, "shape");
  const Extents from = s.shape(0);
  if (shape.size() < from.size()) shape.insert(shape.begin(), from.size() - shape.size(), 1);
  const size_t offset = shape.size() - from.size();
  for (size_t d = 0; d < from.size(); ++d) {
    int64_t& extent = shape[offset + d];
    if (extent == 1) extent = from[d];
    if (from[d] != 1 && from[d] != extent)
      s.fail("the input " + shape_text(from) + " does not broadcast to " + shape_text(shape));
  }
  if (shape == from) return {s.value(0)};
  return {ops::broadcast_to(s.tensor(0), shape, s.at())};
}

// (N, C, H, W) -> (N, b * b * C, H / b, W / b), or with CRD (N, C * b * b, ...).
std::vector<Value> space_to_depth(const NodeScope& s) {
  const std::string mode = s.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") s.fail("attribute 'mode' is '" + mode + "'");
  const int64_t block = s.integer("blocksize");
  if (mode == "CRD" && s.rank(0) == 4) {
    const Tensor blocks = ops::space_to_depth(s.tensor(0), block, s.at());
    const Extents to = blocks.extents();
    const int64_t area = block * block;
    const Tensor split = ops::reshape(blocks, {to[0], area, to[1] / area, to[2], to[3]}, s.at());
    return {ops::reshape(ops::transpose(split, {0, 2, 1, 3, 4}, s.at()), to, s.at())};
  }
  return {ops::space_to_depth(s.tensor(0), s.integer("blocksize"), s.at())};
}

std::vector<Value> depth_to_space(const NodeScope& s) {
  const std::string mode = s.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") s.fail("attribute 'mode' is '" + mode + "'");
  return {ops::depth_to_space(s.tensor(0), s.integer("blocksize"), mode == "CRD", s.at())};
}

}  // namespace

std::vector<OperatorEntry> shape_operators() {
  return {
      {"DepthToSpace", depth_to_space},
      {"Expand", expand},
      {"Flatten", flatten},
      {"Reshape", reshape},
      {"SpaceToDepth", space_to_depth},
      {"Squeeze", squeeze, follow_squeeze},
      {"Transpose", transpose, follow_transpose},
      {"Unsqueeze", unsqueeze, follow_unsqueeze},
  };
}

}  // namespace heddle::onnx
