// Patches of one image beside displaced patches of another.
#include "heddle/ops/sample.h"
#include "ops/pad.h"
#include "ops/window.h"

namespace heddle::ops {

using impl::Call;
using impl::Dims;

Tensor correlation(const Tensor& a, const Tensor& b, const Correlation& attributes, Where where) {
  const Call call{"correlation", where};
  const Correlation& p = attributes;
  impl::check_rank(call, a, "a", 4, 4);
  impl::check_float(call, a, "a");
  impl::check_same_type(call, a, b);
  if (a.extents() != b.extents())
    impl::fail(call, "'a' is " + impl::describe(a) + " and 'b' is " + impl::describe(b));
  if (p.kernel < 1 || p.kernel % 2 == 0 || p.displacement < 0 || p.stride < 1 || p.step < 1 ||
      p.padding < 0)
    impl::fail(call, "an attribute is out of range",
               "the kernel is odd, strides are at least 1, and no number is negative");
  const int64_t border = p.displacement + (p.kernel - 1) / 2, radius = p.displacement / p.step;
  const int64_t side = 2 * radius + 1;
  Dims out;
  for (const int d : {2, 3}) {
    const int64_t room = a.extent(d) + 2 * p.padding - 2 * border;
    if (room < 1)
      impl::fail(call,
                 "images " + impl::text(a.extents()) + " have no patches at a distance of " +
                     std::to_string(border) + " from their borders",
                 "pad them");
    out.push_back((room + p.stride - 1) / p.stride);
  }
  const Dims around{0, 0, p.padding, p.padding};
  const auto padded = [&](const Tensor& t) {
    return impl::pad_constant(call, t, around, around, make_const(t.dtype(), 0));
  };
  const Tensor left = padded(a), right = padded(b);
  const DataType wide = impl::wide(a.dtype());
  const std::vector<Axis> r = impl::reduce_axes(call, {a.extent(1), p.kernel, p.kernel}, "r");
  const Tensor sums = compute(
      Shape{a.extent(0), side, side, out[0], out[1]},
      [&](const std::vector<Axis>& i) {
        const auto place = [&](size_t d) {
          return i[d + 3] * p.stride + (border - (p.kernel - 1) / 2) + r[d + 1];
        };
        const auto moved = [&](size_t d) { return place(d) + (i[d + 1] - radius) * p.step; };
        const Expr one = cast(wide, left(i[0], r[0], place(0), place(1)));
        const Expr other = cast(wide, right(i[0], r[0], moved(0), moved(1)));
        return heddle::sum(p.multiply ? one * other : heddle::abs(one - other), r);
      },
      call.op, call.op, where);
  const auto count = static_cast<double>(p.kernel * p.kernel * a.extent(1));
  return compute(
      Shape{a.extent(0), side * side, out[0], out[1]},
      [&](Axis n, Axis q, Axis y, Axis x) {
        const Expr sum = sums(n, floordiv(q, side), floormod(q, side), y, x);
        return cast(a.dtype(), sum * make_const(wide, 1 / count));
      },
      "correlation_mean", call.op, where);
}

}  // namespace heddle::ops
