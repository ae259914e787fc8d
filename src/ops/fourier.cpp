#include "heddle/ops/fourier.h"

#include <cmath>
#include <numbers>
#include <utility>

#include "heddle/ops/linalg.h"
#include "heddle/ops/transform.h"
#include "ops/common.h"

namespace heddle::ops {
namespace {

using impl::Call;
using impl::Dims;

// The longest transform that is one product.
constexpr int64_t kLongestProduct = 256;

/// exp(sign 2 pi i turn / n) for whole turns: its real part, or the imaginary one. Computed in f64, because
/// an error of the angle would be one of all elements.
Expr root(const Expr& turn, int64_t n, bool imaginary, int sign, DataType type) {
  const Expr angle =
      cast(f64, floormod(turn, n)) * make_const(f64, 2 * std::numbers::pi / static_cast<double>(n));
  if (!imaginary) return cast(type, heddle::cos(angle));
  return cast(type, sign < 0 ? -heddle::sin(angle) : heddle::sin(angle));
}

/// Transforms rows of x (R, n, parts) with parts of 1 or 2.
class Transform {
 public:
  Transform(const Call& call, int sign, DataType type) : call_(call), sign_(sign), type_(type) {}

  /// (R, n, parts) -> (R, `kept`, 2)
  Tensor rows(const Tensor& x, int64_t kept) const {
    const int64_t n = x.extent(1), factor = n > kLongestProduct ? factor_of(n) : 1;
    if (factor == 1) return product(x, kept);
    const Tensor y = by_factors(x, factor);
    return kept == n ? y : slice(y, {0}, {kept}, {1}, {}, call_.where);
  }

 private:
  /// The largest factor up to the square root, 1 for primes.
  static int64_t factor_of(int64_t n) {
    for (auto f = static_cast<int64_t>(std::sqrt(static_cast<double>(n))); f > 1; --f) {
      if (n % f == 0) return f;
    }
    return 1;
  }

  // (R, n parts) x (n parts, kept 2)
  Tensor product(const Tensor& x, int64_t kept) const {
    const int64_t r = x.extent(0), n = x.extent(1), parts = x.extent(2);
    const Tensor roots = compute(
        Shape{n * parts, kept * 2},
        [&](Axis row, Axis column) {
          const Expr t = floordiv(row, parts), f = floordiv(column, 2);
          const Expr re = root(t * f, n, false, sign_, type_);
          const Expr im = root(t * f, n, true, sign_, type_);
          const Expr real = floormod(column, 2) == 0;
          if (parts == 1) return select(real, re, im);
          return select(floormod(row, 2) == 0, select(real, re, im), select(real, -im, re));
        },
        "fourier_roots", call_.op, call_.where);
    const Tensor y =
        matmul(reshape(x, {r, n * parts}, call_.where), roots, false, false, {}, call_.where);
    return reshape(y, {r, kept, 2}, call_.where);
  }

  // Element t = t1 b + t2 of n = a b, and frequency f = f1 + a f2: transforms over t1, roots of n for
  // t2 f1, transforms over t2.
  Tensor by_factors(const Tensor& x, int64_t a) const {
    const Where at = call_.where;
    const int64_t r = x.extent(0), n = x.extent(1), b = n / a, parts = x.extent(2);
    const Tensor columns = reshape(transpose(reshape(x, {r, a, b, parts}, at), {0, 2, 1, 3}, at),
                                   {r * b, a, parts}, at);
    const Tensor first = reshape(rows(columns, a), {r, b, a, 2}, at);
    const Tensor turns = compute(
        Shape{a, b, 2},
        [&](Axis f1, Axis t2, Axis part) {
          return select(part < 1, root(t2 * f1, n, false, sign_, type_),
                        root(t2 * f1, n, true, sign_, type_));
        },
        "fourier_roots", call_.op, at);
    const Tensor turned = compute(
        Shape{r, a, b, 2},
        [&](Axis i, Axis f1, Axis t2, Axis part) {
          const Expr re = first(i, t2, f1, Expr(0)), im = first(i, t2, f1, Expr(1));
          const Expr c = turns(f1, t2, Expr(0)), s = turns(f1, t2, Expr(1));
          return select(part < 1, re * c - im * s, re * s + im * c);
        },
        "fourier_turns", call_.op, at);
    const Tensor last = reshape(rows(reshape(turned, {r * a, b, 2}, at), b), {r, a, b, 2}, at);
    return reshape(transpose(last, {0, 2, 1, 3}, at), {r, n, 2}, at);
  }

  Call call_;
  int sign_;
  DataType type_;
};

/// x with the axis last but one and of extent `length`, cut or padded with zeros; the other half of
/// an inverse of one side is what the first half mirrors.
Tensor prepared(const Call& call, const Tensor& x, int axis, const Dft& a, int64_t length) {
  std::vector<int> order;
  for (int d = 0; d < x.rank() - 1; ++d) {
    if (d != axis) order.push_back(d);
  }
  order.push_back(axis);
  order.push_back(x.rank() - 1);
  const DataType wide = impl::wide(x.dtype());
  Tensor t = impl::convert(call, x, wide);
  if (axis != x.rank() - 2) t = transpose(t, order, call.where);
  const bool mirrors = a.inverse && a.onesided;
  const int64_t given = t.extent(-2), parts = t.extent(-1);
  if (given == length && !mirrors) return t;
  Dims dims = t.extents();
  dims[dims.size() - 2] = length;
  return compute(
      impl::to_shape(dims),
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> at = impl::exprs(i);
        Expr& place = at[at.size() - 2];
        const Expr mirrored = place > length / 2;
        if (mirrors) place = select(mirrored, length - place, place);
        const Expr inside = place < given;
        place = min(place, Expr(given - 1));
        Expr value = t.at(at);
        if (mirrors && parts == 2)
          value = select(heddle::logical_and(mirrored, i.back() > 0), -value, value);
        return given >= length ? value : select(inside, value, make_const(wide, 0));
      },
      "dft_input", call.op, call.where);
}

Tensor transform(const Call& call, const Tensor& x, int axis, const Dft& a) {
  const bool real = a.inverse && a.onesided;
  const int64_t extent = x.extent(axis);
  const int64_t length = a.length > 0 ? a.length : real ? 2 * (extent - 1) : extent;
  if (length < 1 || length > (int64_t{1} << 31))
    impl::fail(call, "a transform of " + std::to_string(length) + " elements");
  const int64_t kept = a.onesided && !a.inverse ? length / 2 + 1 : length;
  const Tensor t = prepared(call, x, axis, a, length);
  const DataType wide = t.dtype();
  Dims dims = t.extents();
  const int64_t rows = impl::product({dims.begin(), dims.end() - 2});
  Tensor y = Transform(call, a.inverse ? 1 : -1, wide)
                 .rows(reshape(t, {rows, length, x.extent(-1)}, call.where), kept);
  if (real) y = slice(y, {0}, {1}, {2}, {}, call.where);
  dims[dims.size() - 2] = kept;
  dims.back() = real ? 1 : 2;
  y = reshape(y, dims, call.where);
  if (axis != x.rank() - 2) {
    std::vector<int> order;
    for (int d = 0; d < x.rank() - 2; ++d) order.push_back(d);
    order.insert(order.begin() + axis, x.rank() - 2);
    order.push_back(x.rank() - 1);
    y = transpose(y, order, call.where);
  }
  if (!a.inverse && wide == x.dtype()) return y;
  return compute(
      y.shape(),
      [&](const std::vector<Axis>& i) {
        const Expr value =
            a.inverse ? y(i) * make_const(wide, 1.0 / static_cast<double>(length)) : y(i);
        return heddle::cast(x.dtype(), value);
      },
      call.op, call.op, call.where);
}

void check_signal(const Call& call, const Tensor& x) {
  impl::check_float(call, x, "x");
  if (x.extent(-1) != 1 && x.extent(-1) != 2)
    impl::fail(
        call,
        "x " + impl::text(x.extents()) + " has a last dimension of " + std::to_string(x.extent(-1)),
        "it is 1 for real numbers and 2 for complex ones");
}

}  // namespace

Tensor dft(const Tensor& x, int axis, Dft attributes, Where where) {
  const Call call{"dft", where};
  impl::check_rank(call, x, "x", 2);
  check_signal(call, x);
  axis = impl::normal_axis(call, axis, x.rank());
  if (axis == x.rank() - 1) impl::fail(call, "the axis is the last one, which has the parts");
  if (attributes.length < 0) impl::fail(call, "'length' is " + std::to_string(attributes.length));
  return transform(call, x, axis, attributes);
}

Tensor stft(const Tensor& x, int64_t step, const Tensor& window, int64_t length, bool onesided,
            Where where) {
  const Call call{"stft", where};
  impl::check_rank(call, x, "x", 3, 3);
  check_signal(call, x);
  if (window) {
    impl::check_rank(call, window, "window", 1, 1);
    impl::check_same_type(call, x, window);
    if (length == 0) length = window.extent(0);
  }
  if (step < 1 || length < 1 || length > x.extent(1) || (window && window.extent(0) != length))
    impl::fail(call, "frames of " + std::to_string(length) + " elements every " +
                         std::to_string(step) + " do not fit x " + impl::text(x.extents()) +
                         (window ? " and a window " + impl::text(window.extents()) : ""));
  const int64_t count = (x.extent(1) - length) / step + 1;
  const Tensor frames = compute(
      Shape{x.extent(0), count, length, x.extent(2)},
      [&](Axis n, Axis f, Axis t, Axis part) {
        const Expr value = x(n, f * step + t, part);
        return window ? value * window(t) : value;
      },
      "stft_frames", call.op, where);
  return transform(call, frames, 2, {.onesided = onesided});
}

}  // namespace heddle::ops
