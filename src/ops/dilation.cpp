// The maximum of windows to which weights are added.
#include <algorithm>

#include "heddle/ops/pool.h"
#include "ops/pad.h"
#include "ops/window.h"

namespace heddle::ops {

using impl::Call;
using impl::Dims;

Tensor dilation2d(const Tensor& x, const Tensor& weight, const Pool& attributes, Where where) {
  const Call call{"dilation2d", where};
  impl::check_rank(call, x, "x", 4, 4);
  impl::check_rank(call, weight, "weight", 3, 3);
  impl::check_same_type(call, x, weight);
  const impl::Dimensions dims(attributes.layout, 2);
  const bool first = attributes.layout == Layout::ChannelsFirst;
  const int of_kernel = first ? 1 : 0;
  const Dims kernel{weight.extent(of_kernel), weight.extent(of_kernel + 1)};
  if (weight.extent(first ? 0 : 2) != x.extent(dims.channel) ||
      (!attributes.kernel.empty() &&
       impl::per_dimension(call, "kernel", attributes.kernel, 2, 1) != kernel))
    impl::fail(call,
               "'weight' " + impl::text(weight.extents()) + " does not fit 'x' " +
                   impl::text(x.extents()) + " and the kernel",
               "it has a window for each channel of 'x'");
  const impl::Window w =
      impl::window_of(call, 2, attributes.stride, attributes.padding, attributes.dilation);
  const Dims in = dims.spatial_dims(x);
  const Dims out = impl::window_counts(call, in, kernel, w, attributes.ceil_mode);
  Dims after = w.after;
  for (size_t d = 0; d < in.size(); ++d)
    after[d] = std::max(after[d], (out[d] - 1) * w.stride[d] + w.dilation[d] * (kernel[d] - 1) + 1 -
                                      in[d] - w.before[d]);
  const Tensor padded =
      impl::pad_constant(call, x, dims.arrange<int64_t>(0, 0, w.before),
                         dims.arrange<int64_t>(0, 0, after), lowest_value(x.dtype()));
  const std::vector<Axis> r = impl::reduce_axes(call, kernel, "r");
  return compute(
      impl::to_shape(dims.arrange(x.extent(0), x.extent(dims.channel), out)),
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> at;
        for (const size_t d : {0, 1})
          at.push_back(i[static_cast<size_t>(dims.spatial(static_cast<int>(d)))] * w.stride[d] +
                       r[d] * w.dilation[d]);
        const Expr c = i[static_cast<size_t>(dims.channel)];
        const Expr added = first ? weight(c, r[0], r[1]) : weight(r[0], r[1], c);
        return reduce_max(padded.at(dims.arrange<Expr>(i[0], c, at)) + added, r);
      },
      call.op, call.op, where);
}

}  // namespace heddle::ops
