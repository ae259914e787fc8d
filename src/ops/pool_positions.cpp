#include "heddle/ops/pool.h"
#include "ops/window.h"

namespace heddle::ops {

Tensor max_pool_positions(const Tensor& x, const Pool& attributes, Where where) {
  const impl::Call call{"max_pool_positions", where};
  if (attributes.layout != Layout::ChannelsFirst)
    impl::fail(call, "the layout has its channels last");
  const Tensor largest = max_pool(x, attributes, where);
  const int n = x.rank() - 2;
  const impl::Dims kernel = impl::per_dimension(call, "kernel", attributes.kernel, n, 1);
  const impl::Window w =
      impl::window_of(call, n, attributes.stride.empty() ? kernel : attributes.stride,
                      attributes.padding, attributes.dilation);
  const std::vector<Axis> r = impl::reduce_axes(call, kernel, "r");
  int64_t elements = 1;
  for (int d = 0; d < n; ++d) elements *= x.extent(d + 2);
  const Tensor position = compute(
      largest.shape(),
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> at{i[0], i[1]};
        Expr inside = Expr(true), flat = Expr(0);
        for (size_t d = 0; d < r.size(); ++d) {
          const int64_t extent = x.extent(static_cast<int>(d) + 2);
          const Expr place = i[d + 2] * w.stride[d] + r[d] * w.dilation[d] - w.before[d];
          inside = heddle::logical_and(inside, heddle::logical_and(place >= 0, place < extent));
          at.push_back(max(min(place, Expr(extent - 1)), Expr(0)));
          flat = flat * extent + at.back();
        }
        const Expr hit = heddle::logical_and(inside, x.at(std::move(at)) == largest(i));
        return reduce_min(select(hit, flat, Expr(elements)), r);
      },
      "max_pool_first", call.op, where);
  return compute(
      position.shape(),
      [&](const std::vector<Axis>& i) { return min(position(i), Expr(elements - 1)); }, call.op,
      call.op, where);
}

}  // namespace heddle::ops
