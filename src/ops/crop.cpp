// Regions of images, resized.
#include "heddle/ops/sample.h"
#include "ir/data_index.h"
#include "ops/between.h"

namespace heddle::ops {
namespace {

using impl::Call;

/// The position of result `i` of `count` between `low` and `high` of the box, in elements of the image.
Expr position_in(const Expr& low, const Expr& high, const Expr& i, int64_t count, int64_t extent) {
  const DataType t = low.dtype();
  const auto number = [&](double v) { return make_const(t, v); };
  const auto last = static_cast<double>(extent - 1);
  if (count == 1) return (low + high) * number(0.5 * last);
  const Expr step = (high - low) * number(last / static_cast<double>(count - 1));
  return low * number(last) + cast(t, i) * step;
}

Expr is_inside(const Expr& position, int64_t extent) {
  const DataType t = position.dtype();
  return heddle::logical_and(position >= make_const(t, 0),
                             position <= make_const(t, static_cast<double>(extent - 1)));
}

}  // namespace

Tensor crop_and_resize(const Tensor& x, const Tensor& boxes, const Tensor& batch,
                       const Crop& attributes, Where where) {
  const Call call{"crop_and_resize", where};
  const Crop& a = attributes;
  impl::check_rank(call, x, "x", 4, 4);
  impl::check_float(call, x, "x");
  impl::check_rank(call, boxes, "boxes", 2, 2);
  impl::check_float(call, boxes, "boxes");
  impl::check_rank(call, batch, "batch", 1, 1);
  if (boxes.extent(1) != 4 || batch.extent(0) != boxes.extent(0) || !batch.dtype().is_integral() ||
      batch.dtype().is_bool())
    impl::fail(call, "'boxes' " + impl::describe(boxes) + " and 'batch' " + impl::describe(batch) +
                         " are not (R, 4) and R integers");
  if (a.height < 1 || a.width < 1)
    impl::fail(call, "a result of " + std::to_string(a.height) + " x " + std::to_string(a.width));
  const DataType wide = impl::wide(x.dtype());
  return compute(
      Shape{boxes.extent(0), x.extent(1), a.height, a.width},
      [&](Axis r, Axis c, Axis i, Axis j) {
        const auto side = [&](int64_t k) { return cast(wide, boxes(r, Expr(k))); };
        const Expr row = position_in(side(0), side(2), i, a.height, x.extent(2));
        const Expr column = position_in(side(1), side(3), j, a.width, x.extent(3));
        const Expr inside =
            heddle::logical_and(is_inside(row, x.extent(2)), is_inside(column, x.extent(3)));
        const Expr image = clamped_index(batch(r), x.extent(0));
        const auto nearest = [&](const Expr& p, int64_t extent) {
          const Expr up = floor(impl::near_extent(p, extent) + make_const(wide, 0.5));
          return impl::within(cast(i64, up), extent);
        };
        const Expr value =
            a.nearest
                ? cast(wide, x(image, c, nearest(row, x.extent(2)), nearest(column, x.extent(3))))
                : impl::bilinear(x, {image, c, Expr(0), Expr(0)}, 2, row, column);
        return cast(x.dtype(), select(inside, value, make_const(wide, a.outside)));
      },
      call.op, call.op, where);
}

}  // namespace heddle::ops
