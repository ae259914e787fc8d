#include "ops/index_box.h"

#include <algorithm>

#include "dsl/known_values.h"

namespace heddle::ops::impl {
namespace {

// Values by index, in row-major order; which axis they follow.
struct Lattice {
  Dims shape;
  std::vector<int64_t> values;

  int64_t stride(size_t axis) const {
    int64_t s = 1;
    for (size_t d = axis + 1; d < shape.size(); ++d) s *= shape[d];
    return s;
  }

  // The side that the values are, if they grow by one step along one axis and along no other.
  std::optional<BoxSide> side(int dimension) const {
    BoxSide out{.dimension = dimension, .first = values[0]};
    for (size_t a = 0; a < shape.size(); ++a) {
      const int64_t step = shape[a] > 1 ? values[static_cast<size_t>(stride(a))] - values[0] : 0;
      if (step == 0) continue;
      if (out.axis >= 0 || step < 0) return std::nullopt;
      out = {dimension, values[0], step, shape[a], static_cast<int>(a)};
    }
    for (size_t i = 0; i < values.size(); ++i) {
      const auto a = static_cast<size_t>(std::max(out.axis, 0));
      const int64_t along = out.axis < 0 ? 0 : static_cast<int64_t>(i) / stride(a) % shape[a];
      if (values[i] != out.first + out.step * along) return std::nullopt;
    }
    return out;
  }
};

int64_t from_start(int64_t index, int64_t extent) { return index < 0 ? index + extent : index; }

}  // namespace

std::optional<IndexBox> box_of_rows(const Tensor& indices, const Dims& extents) {
  const std::optional<std::vector<int64_t>> known = known_integers(indices);
  if (!known || known->empty()) return std::nullopt;
  Dims shape = indices.extents();
  shape.pop_back();
  const size_t count = extents.size();
  std::vector<bool> followed(shape.size());
  IndexBox box;
  for (size_t d = 0; d < count; ++d) {
    Lattice lattice{shape, {}};
    for (size_t i = d; i < known->size(); i += count)
      lattice.values.push_back(from_start((*known)[i], extents[d]));
    const std::optional<BoxSide> side = lattice.side(static_cast<int>(d));
    if (!side || (side->axis >= 0 && followed[static_cast<size_t>(side->axis)]))
      return std::nullopt;
    if (side->axis >= 0) followed[static_cast<size_t>(side->axis)] = true;
    box.push_back(*side);
  }
  for (size_t a = 0; a < shape.size(); ++a)
    if (shape[a] > 1 && !followed[a]) return std::nullopt;
  return box;
}

std::optional<BoxSide> side_along(const Tensor& indices, int axis, int64_t extent) {
  const std::optional<std::vector<int64_t>> known = known_integers(indices);
  if (!known || known->empty()) return std::nullopt;
  Lattice lattice{indices.extents(), *known};
  for (int64_t& index : lattice.values) index = from_start(index, extent);
  std::optional<BoxSide> side = lattice.side(axis);
  if (!side || (side->axis != axis && (side->axis >= 0 || indices.extent(axis) != 1)))
    return std::nullopt;
  side->axis = 0;
  return side;
}

Expr is_in(const BoxSide& side, const Expr& position) {
  if (side.count == 1) return position == side.first;
  const Expr inside =
      logical_and(position >= side.first, position < side.first + side.step * side.count);
  if (side.step == 1) return inside;
  return logical_and(inside, floormod(position - side.first, Expr(side.step)) == 0);
}

Expr index_in(const BoxSide& side, const Expr& position) {
  if (side.count == 1) return Expr(0);
  return min(max(floordiv(position - side.first, Expr(side.step)), Expr(0)), Expr(side.count - 1));
}

}  // namespace heddle::ops::impl
