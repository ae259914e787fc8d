#include "heddle/ops/conv.h"
#include "ops/between.h"
#include "ops/window.h"

namespace heddle::ops {

Tensor fold(const Tensor& x, const std::vector<int64_t>& size, const std::vector<int64_t>& kernel,
            const Conv& attributes, Where where) {
  const impl::Call call{"fold", where};
  impl::check_rank(call, x, "x", 3, 3);
  const int n = static_cast<int>(size.size());
  if (n < 1 || kernel.size() != size.size())
    impl::fail(call, "'size' " + impl::text(size) + " and 'kernel' " + impl::text(kernel) +
                         " do not have one extent for each dimension");
  for (const int64_t extent : size) {
    if (extent < 1) impl::fail(call, "'size' " + impl::text(size) + " has an extent below 1");
  }
  for (const int64_t extent : kernel) {
    if (extent < 1) impl::fail(call, "'kernel' " + impl::text(kernel) + " has an extent below 1");
  }
  const impl::Window w =
      impl::window_of(call, n, attributes.stride, attributes.padding, attributes.dilation);
  const impl::Dims counts = impl::window_counts(call, size, kernel, w);
  const int64_t window = impl::product(kernel);
  if (x.extent(1) % window != 0 || x.extent(2) != impl::product(counts))
    impl::fail(call,
               "x " + impl::text(x.extents()) + " does not fit " + impl::text(counts) +
                   " windows of " + impl::text(kernel),
               "it is (N, C * window, windows)");
  impl::Dims dims = size;
  dims.insert(dims.begin(), {x.extent(0), x.extent(1) / window});
  const std::vector<Axis> r = impl::reduce_axes(call, kernel, "r");
  const DataType wide = impl::wide(x.dtype());
  return compute(
      impl::to_shape(dims),
      [&](const std::vector<Axis>& i) {
        Expr element = Expr(0), column = Expr(0), hit = Expr(true);
        for (size_t d = 0; d < r.size(); ++d) {
          const Expr from = i[d + 2] + w.before[d] - r[d] * w.dilation[d];
          const Expr place = floordiv(from, w.stride[d]);
          hit = heddle::logical_and(
              hit, heddle::logical_and(floormod(from, w.stride[d]) == 0,
                                       heddle::logical_and(place >= 0, place < counts[d])));
          element = element * kernel[d] + r[d];
          column = column * counts[d] + impl::within(place, counts[d]);
        }
        const Expr value = heddle::cast(wide, x(i[0], i[1] * window + element, column));
        return heddle::cast(x.dtype(), heddle::sum(select(hit, value, make_const(wide, 0)), r));
      },
      call.op, call.op, where);
}

}  // namespace heddle::ops
