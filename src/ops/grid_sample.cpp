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

/// The weights of the elements from `first` on, for a position `fraction` behind an element.
struct Weights {
  int64_t first = 0;
  std::vector<Expr> weights;
};

Weights weights_of(GridMode mode, const Expr& fraction) {
  const auto number = [&](double v) { return make_const(fraction.dtype(), v); };
  const Expr rest = number(1) - fraction;
  if (mode == GridMode::Linear) return {0, {rest, fraction}};
  constexpr double kA = -0.75;
  const auto near = [&](const Expr& x) {
    return (number(kA + 2) * x - number(kA + 3)) * x * x + number(1);
  };
  const auto far = [&](const Expr& x) {
    return ((number(kA) * x - number(5 * kA)) * x + number(8 * kA)) * x - number(4 * kA);
  };
  return {-1, {far(fraction + number(1)), near(fraction), near(rest), far(rest + number(1))}};
}

class Sampled {
 public:
  Sampled(const Tensor& x, Tensor positions, const GridSample& how)
      : x_(x), positions_(std::move(positions)), how_(how) {}

  /// The value at spatial dimensions `next` and on. `at` has the indices of those before.
  Expr value(const std::vector<Axis>& i, std::vector<Expr> at, int next) const {
    const int n = x_.rank() - 2;
    const DataType t = positions_.dtype();
    if (next == n) return cast(t, x_.at(std::move(at)));
    std::vector<Expr> place{i[0]};
    place.insert(place.end(), i.begin() + 2, i.end());
    place.emplace_back(next);
    const Expr p = positions_.at(std::move(place)), low = floor(p);
    const Along along{x_.extent(next + 2), how_};
    const auto d = static_cast<size_t>(next) + 2;
    const auto element = [&](const Expr& index) {
      at[d] = along.index(index);
      const Expr v = value(i, at, next + 1);
      if (how_.padding != GridPadding::Zeros) return v;
      return select(along.inside(index), v, make_const(t, 0));
    };
    if (how_.mode == GridMode::Nearest) return element(cast(i64, p));
    const Weights w = weights_of(how_.mode, p - low);
    Expr sum;
    for (size_t k = 0; k < w.weights.size(); ++k) {
      const Expr part =
          element(cast(i64, low) + (w.first + static_cast<int64_t>(k))) * w.weights[k];
      sum = k == 0 ? part : sum + part;
    }
    return sum;
  }

 private:
  Tensor x_, positions_;
  GridSample how_;
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
  // Positions in the order of the dimensions, which the neighbours of all channels share.
  const Tensor positions = compute(
      grid.shape(),
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> at = impl::exprs(i);
        Expr p;
        for (int d = n - 1; d >= 0; --d) {
          at.back() = Expr(n - 1 - d);
          const Expr here =
              Along{x.extent(d + 2), attributes}.position(heddle::cast(wide, grid.at(at)));
          p = d == n - 1 ? here : select(i.back() == Expr(d), here, p);
        }
        return p;
      },
      "grid_positions", call.op, where);
  Dims dims = grid.extents();
  dims.pop_back();
  dims.insert(dims.begin() + 1, x.extent(1));
  const Sampled sampled(x, positions, attributes);
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
