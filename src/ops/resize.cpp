#include "heddle/ops/resize.h"

#include <numeric>
#include <utility>

#include "ops/common.h"

namespace heddle::ops {
namespace {

using impl::Call;
using impl::Dims;

/// A position numerator(o) / denominator in whole numbers, where numerator = scale * o + offset.
struct Position {
  int64_t scale = 1, offset = 0, denominator = 1;
  Expr numerator(const Expr& o) const { return o * scale + offset; }
};

Position position_of(ResizeCoordinates coordinates, int64_t in, int64_t out) {
  Position p;
  switch (coordinates) {
    case ResizeCoordinates::HalfPixel: p = {2 * in, in - out, 2 * out}; break;
    case ResizeCoordinates::Asymmetric: p = {in, 0, out}; break;
    case ResizeCoordinates::AlignCorners:
      if (out > 1)
        p = {in - 1, 0, out - 1};
      else
        p = {0, 0, 1};
      break;
  }
  // Smaller numbers give simpler index expressions: scale 1 and denominator 2 for a doubling.
  const int64_t common = std::gcd(std::gcd(p.scale, p.offset), p.denominator);
  return {p.scale / common, p.offset / common, p.denominator / common};
}

Expr clamped(const Expr& index, int64_t extent) {
  return max(min(index, Expr(extent - 1)), Expr(0));
}

/// floor(numerator / d), clamped. The comparison uses the numerator, which is linear in the
/// position, so that a loop can be cut where the comparison changes.
Expr clamped_floor(const Expr& numerator, int64_t d, int64_t extent) {
  return floordiv(max(min(numerator, Expr((extent - 1) * d)), Expr(0)), d);
}

Expr nearest(const Position& p, NearestRounding rounding, const Expr& o, int64_t extent) {
  const int64_t d = p.denominator;
  const Expr n = p.numerator(o);
  switch (rounding) {
    case NearestRounding::Floor: return clamped_floor(n, d, extent);
    case NearestRounding::Ceil: return clamped_floor(n + (d - 1), d, extent);
    // ceil(p - 1/2) and floor(p + 1/2)
    case NearestRounding::PreferFloor: return clamped_floor(n * 2 + (d - 1), 2 * d, extent);
    case NearestRounding::PreferCeil: return clamped_floor(n * 2 + d, 2 * d, extent);
  }
  return {};
}

/// The weight of an element at distance t from the position, for t of at most 1, and of 1 to 2: the piecewise cubic of
/// Keys 1981, whose slope at distance 1 is a.
Expr cubic_near(const Expr& t, double a) {
  const DataType type = t.dtype();
  return ((t * make_const(type, a + 2) - make_const(type, a + 3)) * t) * t + make_const(type, 1);
}

Expr cubic_far(const Expr& t, double a) {
  const DataType type = t.dtype();
  return ((t * make_const(type, a) - make_const(type, 5 * a)) * t + make_const(type, 8 * a)) * t -
         make_const(type, 4 * a);
}

/// What the elements at the positions first, first + 1, ... beside a fraction count.
struct Taps {
  int64_t first;
  std::vector<Expr> weights;
};

Taps taps(const Resize& how, const Expr& f) {
  if (how.mode == ResizeMode::Linear) return {0, {1 - f, f}};
  const double a = how.cubic_coefficient;
  return {-1, {cubic_far(f + 1, a), cubic_near(f, a), cubic_near(1 - f, a), cubic_far(2 - f, a)}};
}

/// Interpolates x at an element of the output.
struct Interpolation {
  const Tensor& x;
  const Resize& how;
  const std::vector<Position>& positions;
  size_t first;  ///< dimension of the first position
  const std::vector<Axis>& at;
  DataType type;

  /// Along the positions from `next` on. `indices` has the indices of all dimensions before.
  Expr along(std::vector<Expr> indices, size_t next) const {
    if (next == positions.size()) return heddle::cast(type, x.at(std::move(indices)));
    const Position& p = positions[next];
    const size_t d = first + next;
    const int64_t extent = x.extent(static_cast<int>(d));
    if (p.denominator == 1) {
      indices[d] = clamped(p.numerator(at[d]), extent);
      return along(std::move(indices), next + 1);
    }
    const Expr n = p.numerator(at[d]);
    const Expr fraction = heddle::cast(type, floormod(n, p.denominator)) *
                          make_const(type, 1.0 / static_cast<double>(p.denominator));
    const Taps around = taps(how, fraction);
    Expr sum;
    for (size_t k = 0; k < around.weights.size(); ++k) {
      // Beyond the border all neighbours are the border element.
      const int64_t offset = around.first + static_cast<int64_t>(k);
      indices[d] = clamped_floor(n + offset * p.denominator, p.denominator, extent);
      const Expr term = along(indices, next + 1) * around.weights[k];
      sum = k == 0 ? term : sum + term;
    }
    return sum;
  }
};

}  // namespace

Tensor resize(const Tensor& x, const std::vector<int64_t>& size, Resize attributes, Where where) {
  const Call call{"resize", where};
  impl::check_rank(call, x, "x", 3, 5);
  const size_t spatial = static_cast<size_t>(x.rank()) - 2;
  if (size.size() != spatial)
    impl::fail(call, "the size " + impl::text(size) + " has " + std::to_string(size.size()) +
                         " extents for " + std::to_string(spatial) + " spatial dimensions of " +
                         impl::text(x.extents()));
  const bool between = attributes.mode != ResizeMode::Nearest;
  if (between) impl::check_float(call, x, "x");
  const size_t first = attributes.layout == Layout::ChannelsFirst ? 2 : 1;
  Dims dims = x.extents();
  std::vector<Position> positions;
  for (size_t d = 0; d < spatial; ++d) {
    if (size[d] < 1) impl::fail(call, "the size " + impl::text(size) + " has an extent below 1");
    positions.push_back(position_of(attributes.coordinates, dims[first + d], size[d]));
    dims[first + d] = size[d];
  }
  return compute(
      impl::to_shape(dims),
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> indices = impl::exprs(i);
        if (between) {
          const Interpolation of{x, attributes, positions, first, i, impl::wide(x.dtype())};
          return heddle::cast(x.dtype(), of.along(indices, 0));
        }
        for (size_t d = 0; d < spatial; ++d)
          indices[first + d] = nearest(positions[d], attributes.rounding, i[first + d],
                                       x.extent(static_cast<int>(first + d)));
        return x.at(std::move(indices));
      },
      call.op, call.op, where);
}

}  // namespace heddle::ops
