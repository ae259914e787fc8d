#include "heddle/ops/conv.h"

#include <utility>

#include "ops/contraction.h"
#include "ops/pad.h"
#include "ops/window.h"

namespace heddle::ops {
namespace {

using impl::Call;
using impl::Dims;

struct Weight {
  int64_t out_channels = 0, in_channels = 0;  ///< in_channels of one group
  Dims kernel;
};

Weight weight_of(const Tensor& w, Layout layout, int n) {
  const Dims all = w.extents();
  if (layout == NCHW) return {all[0], all[1], Dims(all.begin() + 2, all.end())};
  return {w.extent(-1), w.extent(-2), Dims(all.begin(), all.begin() + n)};
}

void check_channels(const Call& call, const Tensor& x, const Tensor& w, const Weight& weight,
                    int64_t channels, int64_t groups) {
  if (groups < 1) impl::fail(call, "'groups' is " + std::to_string(groups), "at least 1");
  if (channels % groups != 0 || weight.out_channels % groups != 0)
    impl::fail(call,
               std::to_string(channels) + " input and " + std::to_string(weight.out_channels) +
                   " output channels cannot be split into " + std::to_string(groups) + " groups");
  if (weight.in_channels != channels / groups)
    impl::fail(call,
               "'weight' " + impl::text(w.extents()) + " takes " +
                   std::to_string(weight.in_channels) + " input channels, but 'x' " +
                   impl::text(x.extents()) + " has " + std::to_string(channels / groups) +
                   (groups > 1 ? " a group" : ""),
               "the weight is (K, C / groups, R, S), or (R, S, C / groups, K) for ChannelsLast");
}

Tensor convolution(const Call& call, int n, const Tensor& x, const Tensor& w, const Conv& conv,
                   int64_t groups, const Tensor& bias) {
  const impl::Dimensions dims(conv.layout, n);
  const Weight weight = weight_of(w, conv.layout, n);
  const int64_t channels = x.extent(dims.channel);
  check_channels(call, x, w, weight, channels, groups);
  const impl::ContractionTypes types = impl::contraction_types(call, x, w, conv.precision);
  const impl::Window window = impl::window_of(call, n, conv.stride, conv.padding, conv.dilation);
  const Dims out = impl::window_counts(call, dims.spatial_dims(x), weight.kernel, window);

  const Tensor padded =
      impl::pad_constant(call, x, dims.arrange<int64_t>(0, 0, window.before),
                         dims.arrange<int64_t>(0, 0, window.after), make_const(x.dtype(), 0));
  const Axis c = reduce_axis(weight.in_channels, "rc", call.where);
  const std::vector<Axis> r = impl::reduce_axes(call, weight.kernel, "r");
  const int64_t per_group = weight.out_channels / groups;
  const auto body = [&](const std::vector<Axis>& i) {
    const Axis& k = i[static_cast<size_t>(dims.channel)];
    std::vector<Expr> at, taps = impl::exprs(r);
    for (size_t d = 0; d < static_cast<size_t>(n); ++d)
      at.push_back(i[static_cast<size_t>(dims.spatial(static_cast<int>(d)))] * window.stride[d] +
                   r[d] * window.dilation[d]);
    // With per_group == 1 this folds to k * in_channels + c, so the index of a depthwise
    // convolution stays linear.
    const Expr channel = groups == 1 ? Expr(c) : floordiv(k, per_group) * weight.in_channels + c;
    std::vector<Expr> at_w;
    if (conv.layout == NCHW) at_w = {k, c};
    at_w.insert(at_w.end(), taps.begin(), taps.end());
    if (conv.layout != NCHW) at_w.insert(at_w.end(), {c, k});
    std::vector<Axis> over{c};
    over.insert(over.end(), r.begin(), r.end());
    return sum_in(
        types.accumulate,
        impl::product_in(types.accumulate, padded.at(dims.arrange<Expr>(i[0], channel, at)),
                         w.at(std::move(at_w))),
        over);
  };
  const Tensor sums = compute(impl::to_shape(dims.arrange(x.extent(0), weight.out_channels, out)),
                              body, call.op, call.op, call.where);
  return impl::finish_contraction(call, sums, bias, dims.channel, types);
}

Tensor convolution(const Call& call, int n, const Tensor& x, const Tensor& w, const Conv& conv,
                   const Tensor& bias) {
  impl::check_rank(call, x, "x", n + 2, n + 2);
  impl::check_rank(call, w, "weight", n + 2, n + 2);
  return convolution(call, n, x, w, conv, conv.groups, bias);
}

}  // namespace

Tensor conv1d(const Tensor& x, const Tensor& weight, const Conv& attributes, const Tensor& bias,
              Where where) {
  return convolution({"conv1d", where}, 1, x, weight, attributes, bias);
}

Tensor conv2d(const Tensor& x, const Tensor& weight, const Conv& attributes, const Tensor& bias,
              Where where) {
  return convolution({"conv2d", where}, 2, x, weight, attributes, bias);
}

Tensor conv3d(const Tensor& x, const Tensor& weight, const Conv& attributes, const Tensor& bias,
              Where where) {
  return convolution({"conv3d", where}, 3, x, weight, attributes, bias);
}

Tensor depthwise_conv2d(const Tensor& x, const Tensor& weight, const Conv& attributes,
                        const Tensor& bias, Where where) {
  const Call call{"depthwise_conv2d", where};
  impl::check_rank(call, x, "x", 4, 4);
  impl::check_rank(call, weight, "weight", 4, 4);
  const int64_t groups = x.extent(impl::Dimensions(attributes.layout, 2).channel);
  return convolution(call, 2, x, weight, attributes, groups, bias);
}

}  // namespace heddle::ops
