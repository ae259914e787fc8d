// Reads at the positions of a grid, and the grids of affine maps.
#include <utility>

#include "heddle/ops/sample.h"
#include "ops/between.h"

namespace heddle::ops {
namespace {

using impl::Call;
using impl::Dims;

/// One dimension of the image: how positions map to elements.
struct Along {
  int64_t extent;
  GridSample how;

  /// -1..1 as a number of elements, inside the image as far as the padding brings it there.
  Expr position(const Expr& given) const {
    const DataType t = given.dtype();
    const auto number = [&](double v) { return make_const(t, v); };
    const auto n = static_cast<double>(extent);
    Expr p = how.align_corners ? (given + number(1)) * number((n - 1) / 2)
                               : ((given + number(1)) * number(n) - number(1)) * number(0.5);
    if (how.mode == GridMode::Nearest) p = round(p);
    // Cubic interpolation begins at elements outside, which have the value of the border.
    if (how.padding == GridPadding::Border && how.mode != GridMode::Cubic)
      p = fmax(fmin(p, number(n - 1)), number(0));
    if (how.padding == GridPadding::Reflection) p = reflected(p);
    return impl::near_extent(p, extent);
  }

  /// Element `i` with the padding; `inside` is whether the image has it.
  Expr index(const Expr& i) const {
    if (how.padding != GridPadding::Reflection) return impl::within(i, extent);
    const int64_t period = how.align_corners ? 2 * extent - 2 : 2 * extent;
    if (period == 0) return Expr(0);
    const Expr m = floormod(i, period);
    return impl::within(select(m < extent, m, period - (how.align_corners ? 0 : 1) - m), extent);
  }
  Expr inside(const Expr& i) const { return heddle::logical_and(i >= 0, i < extent); }

 private:
  Expr reflected(const Expr& p) const {
    const DataType t = p.dtype();
    const double low = how.align_corners ? 0 : -0.5;
    const double range = static_cast<double>(extent) - 1 - 2 * low;
    if (range == 0) return make_const(t, 0);
    const Expr from = abs(p - make_const(t, low));
    const Expr times = floor(from * make_const(t, 1 / range));
    const Expr rest = from - times * make_const(t, range);
    const Expr half = times * make_const(t, 0.5);
    const Expr mirrored =
        select(half == floor(half), make_const(t, low) + rest, make_const(t, low + range) - rest);
    if (how.mode == GridMode::Nearest) return mirrored;
    return select(heddle::logical_and(p >= make_const(t, low), p <= make_const(t, low + range)), p,
                  mirrored);
  }
};

/// The weights of the elements from the first one on, for a position `fraction` behind an element: that is the
/// first one, of cubic interpolation the second.
std::vector<Expr> weights_of(GridMode mode, const Expr& fraction) {
  const auto number = [&](double v) { return make_const(fraction.dtype(), v); };
  const Expr rest = number(1) - fraction;
  if (mode == GridMode::Linear) return {rest, fraction};
  constexpr double kA = -0.75;
  const auto near = [&](const Expr& x) {
    return (number(kA + 2) * x - number(kA + 3)) * x * x + number(1);
  };
  const auto far = [&](const Expr& x) {
    return ((number(kA) * x - number(5 * kA)) * x + number(8 * kA)) * x - number(4 * kA);
  };
  return {far(fraction + number(1)), near(fraction), near(rest), far(rest + number(1))};
}

/// The elements that each position of a dimension reads, which all channels share.
struct Taps {
  Tensor places;   ///< (N, taps, out...): indices; -1 where zeros are read
  Tensor weights;  ///< likewise; undefined where there is one tap
};

Taps taps_of(const Call& call, const Tensor& grid, const Along& along, int64_t coordinate,
             DataType type) {
  const int64_t count = along.how.mode == GridMode::Nearest  ? 1
                        : along.how.mode == GridMode::Linear ? 2
                                                             : 4;
  Dims dims = grid.extents();
  dims.pop_back();
  dims.insert(dims.begin() + 1, count);
  const auto position = [&](const std::vector<Axis>& i) {
    std::vector<Expr> at{i[0]};
    at.insert(at.end(), i.begin() + 2, i.end());
    at.emplace_back(coordinate);
    return along.position(heddle::cast(type, grid.at(std::move(at))));
  };
  Taps taps;
  taps.places = compute(
      impl::to_shape(dims),
      [&](const std::vector<Axis>& i) {
        const Expr p = position(i);
        const Expr index = along.how.mode == GridMode::Nearest
                               ? cast(i64, p)
                               : cast(i64, floor(p)) + i[1] + (count == 4 ? -1 : 0);
        const Expr place = along.index(index);
        if (along.how.padding != GridPadding::Zeros) return heddle::cast(i32, place);
        return heddle::cast(i32, select(along.inside(index), place, Expr(-1)));
      },
      "grid_places", call.op, call.where);
  if (count == 1) return taps;
  taps.weights = compute(
      impl::to_shape(dims),
      [&](const std::vector<Axis>& i) {
        const Expr p = position(i);
        const std::vector<Expr> all = weights_of(along.how.mode, p - floor(p));
        Expr weight = all.back();
        for (size_t k = all.size() - 1; k-- > 0;)
          weight = select(Expr(i[1]) < static_cast<int64_t>(k) + 1, all[k], weight);
        return weight;
      },
      "grid_weights", call.op, call.where);
  return taps;
}

class Sampled {
 public:
  Sampled(const Tensor& x, std::vector<Taps> taps, DataType type, GridPadding padding)
      : x_(x), taps_(std::move(taps)), type_(type), padding_(padding) {}

  /// The value at spatial dimensions `next` and on. `at` has the indices of those before.
  Expr value(const std::vector<Axis>& i, std::vector<Expr> at, int next) const {
    if (next == x_.rank() - 2) return cast(type_, x_.at(std::move(at)));
    const Taps& taps = taps_[static_cast<size_t>(next)];
    Expr sum;
    for (int64_t k = 0; k < taps.places.extent(1); ++k) {
      std::vector<Expr> tap{i[0], Expr(k)};
      tap.insert(tap.end(), i.begin() + 2, i.end());
      const Expr place = cast(i64, taps.places.at(tap));
      at[static_cast<size_t>(next) + 2] = impl::within(place, x_.extent(next + 2));
      Expr part = value(i, at, next + 1);
      if (padding_ == GridPadding::Zeros) part = select(place >= 0, part, make_const(type_, 0));
      if (taps.weights) part = part * taps.weights.at(tap);
      sum = k == 0 ? part : sum + part;
    }
    return sum;
  }

 private:
  Tensor x_;
  std::vector<Taps> taps_;
  DataType type_;
  GridPadding padding_;
};

}  // namespace

Tensor grid_sample(const Tensor& x, const Tensor& grid, GridSample attributes, Where where) {
  const Call call{"grid_sample", where};
  impl::check_rank(call, x, "x", 3, 5);
  impl::check_rank(call, grid, "grid", 3, 5);
  impl::check_float(call, x, "x");
  impl::check_float(call, grid, "grid");
  const int n = x.rank() - 2;
  if (grid.rank() != x.rank() || grid.extent(-1) != n || grid.extent(0) != x.extent(0))
    impl::fail(
        call, "'grid' " + impl::text(grid.extents()) + " does not fit x " + impl::text(x.extents()),
        "it is (N, out..., " + std::to_string(n) + ")");
  if (attributes.mode == GridMode::Cubic && n == 3)
    impl::fail(call, "cubic interpolation has at most 2 spatial dimensions");
  const DataType wide = impl::wide(x.dtype());
  std::vector<Taps> taps;
  for (int d = 0; d < n; ++d)
    taps.push_back(taps_of(call, grid, {x.extent(d + 2), attributes}, n - 1 - d, wide));
  Dims dims = grid.extents();
  dims.pop_back();
  dims.insert(dims.begin() + 1, x.extent(1));
  const Sampled sampled(x, std::move(taps), wide, attributes.padding);
  return compute(
      impl::to_shape(dims),
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> at(static_cast<size_t>(n) + 2);
        at[0] = i[0];
        at[1] = i[1];
        return heddle::cast(x.dtype(), sampled.value(i, std::move(at), 0));
      },
      call.op, call.op, where);
}

Tensor affine_grid(const Tensor& theta, const std::vector<int64_t>& size, bool align_corners,
                   Where where) {
  const Call call{"affine_grid", where};
  impl::check_rank(call, theta, "theta", 3, 3);
  impl::check_float(call, theta, "theta");
  const auto n = static_cast<int64_t>(size.size());
  if (n < 2 || n > 3 || theta.extent(1) != n || theta.extent(2) != n + 1)
    impl::fail(
        call,
        "'theta' " + impl::text(theta.extents()) + " does not fit the size " + impl::text(size),
        "it is (N, 2, 3) for two dimensions and (N, 3, 4) for three");
  Dims dims = size;
  dims.insert(dims.begin(), theta.extent(0));
  dims.push_back(n);
  const DataType wide = impl::wide(theta.dtype());
  return compute(
      impl::to_shape(dims),
      [&](const std::vector<Axis>& i) {
        const Expr row = i.back();
        Expr sum = heddle::cast(wide, theta(i[0], row, Expr(n)));
        for (int64_t d = 0; d < n; ++d) {
          // Coordinate d is that of the last dimension but d, from -1 to 1.
          const auto dimension = static_cast<size_t>(n - 1 - d);
          const auto extent = static_cast<double>(size[dimension]);
          const double step = align_corners ? 2 / std::max(extent - 1, 1.0) : 2 / extent;
          const Expr place = heddle::cast(wide, i[dimension + 1]) * make_const(wide, step) +
                             make_const(wide, align_corners ? -1 : step / 2 - 1);
          sum = sum + heddle::cast(wide, theta(i[0], row, Expr(d))) * place;
        }
        return heddle::cast(theta.dtype(), sum);
      },
      call.op, call.op, where);
}

}  // namespace heddle::ops
