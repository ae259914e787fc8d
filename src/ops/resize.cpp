#include "heddle/ops/resize.h"

#include <numeric>
#include <utility>

#include "ir/data_index.h"
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

/// A neighbour of a position: how many elements behind the one before the position, and its weight.
struct Neighbour {
  int64_t offset = 0;
  Expr weight;
};

/// The neighbours of a position `fraction` behind an element.
std::vector<Neighbour> neighbours(const Resize& r, const Expr& fraction) {
  const Expr rest = 1 - fraction;
  if (r.mode == ResizeMode::Linear) return {{0, rest}, {1, fraction}};
  const double a = r.cubic_coefficient;
  const auto number = [&](double value) { return make_const(fraction.dtype(), value); };
  // Keys' polynomials for distances up to 1, and from 1 to 2.
  const auto near = [&](const Expr& x) {
    return (number(a + 2) * x - number(a + 3)) * x * x + number(1);
  };
  const auto far = [&](const Expr& x) {
    return ((number(a) * x - number(5 * a)) * x + number(8 * a)) * x - number(4 * a);
  };
  return {{-1, far(fraction + 1)}, {0, near(fraction)}, {1, near(rest)}, {2, far(rest + 1)}};
}

/// Interpolates x along `dims[next...]`. `indices` has the indices of all dimensions before.
Expr interpolate(const Tensor& x, const Resize& r, const std::vector<Position>& positions,
                 size_t first, const std::vector<Axis>& at, std::vector<Expr> indices, size_t next,
                 DataType type) {
  if (next == positions.size()) return heddle::cast(type, x.at(std::move(indices)));
  const Position& p = positions[next];
  const size_t d = first + next;
  const int64_t extent = x.extent(static_cast<int>(d));
  if (p.denominator == 1) {
    indices[d] = clamped(p.numerator(at[d]), extent);
    return interpolate(x, r, positions, first, at, std::move(indices), next + 1, type);
  }
  const Expr n = p.numerator(at[d]);
  const Expr fraction = heddle::cast(type, floormod(n, p.denominator)) *
                        make_const(type, 1.0 / static_cast<double>(p.denominator));
  Expr sum;
  for (const Neighbour& neighbour : neighbours(r, fraction)) {
    // Beyond the border all neighbours are the border element.
    indices[d] = clamped_floor(n + neighbour.offset * p.denominator, p.denominator, extent);
    const Expr value = interpolate(x, r, positions, first, at, indices, next + 1, type);
    sum = sum.defined() ? sum + value * neighbour.weight : value * neighbour.weight;
  }
  return sum;
}

}  // namespace

Tensor resize(const Tensor& x, const std::vector<int64_t>& size, Resize attributes, Where where) {
  const Call call{"resize", where};
  impl::check_rank(call, x, "x", 3, 5);
  const size_t spatial = static_cast<size_t>(x.rank()) - 2;
  if (size.size() != spatial)
    impl::fail(call, "the size " + impl::text(size) + " has " + std::to_string(size.size()) +
                         " extents for " + std::to_string(spatial) + " spatial dimensions of " +
                         impl::text(x.extents()));
  const bool interpolates = attributes.mode != ResizeMode::Nearest;
  if (interpolates) impl::check_float(call, x, "x");
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
        if (interpolates) {
          const Expr value =
              interpolate(x, attributes, positions, first, i, indices, 0, impl::wide(x.dtype()));
          return heddle::cast(x.dtype(), value);
        }
        for (size_t d = 0; d < spatial; ++d)
          indices[first + d] = nearest(positions[d], attributes.rounding, i[first + d],
                                       x.extent(static_cast<int>(first + d)));
        return x.at(std::move(indices));
      },
      call.op, call.op, where);
}

Tensor resample(const Tensor& x, int axis, const Tensor& indices, const Tensor& weights,
                Where where) {
  const Call call{"resample", where};
  impl::check_rank(call, x, "x", 1);
  impl::check_float(call, x, "x");
  impl::check_rank(call, indices, "indices", 2, 2);
  impl::check_float(call, weights, "weights");
  axis = impl::normal_axis(call, axis, x.rank());
  if (!indices.dtype().is_integral() || indices.extents() != weights.extents())
    impl::fail(
        call,
        "'indices' is " + impl::describe(indices) + " and 'weights' is " + impl::describe(weights),
        "they are integers and floats of one shape");
  const auto d = static_cast<size_t>(axis);
  const DataType wide = impl::wide(x.dtype());
  Dims dims = x.extents();
  dims[d] = indices.extent(0);
  const Axis tap = reduce_axis(indices.extent(1), "t", where);
  return compute(
      impl::to_shape(dims),
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> at = impl::exprs(i);
        at[d] = clamped_index(indices(i[d], tap), x.extent(axis));
        const Expr weight = heddle::cast(wide, weights(i[d], tap));
        const Expr none = make_const(wide, 0);
        const Expr value = heddle::cast(wide, x.at(std::move(at))) * weight;
        return heddle::cast(x.dtype(), heddle::sum(select(weight == none, none, value), tap));
      },
      call.op, call.op, where);
}

}  // namespace heddle::ops
