#include "ops/window.h"

namespace heddle::ops::impl {

Dims Dimensions::spatial_dims(const Tensor& x) const {
  Dims result;
  for (int d = 0; d < n; ++d) result.push_back(x.extent(spatial(d)));
  return result;
}

Window window_of(const Call& call, int n, const Dims& stride, const Dims& padding,
                 const Dims& dilation) {
  Window w;
  w.stride = per_dimension(call, "stride", stride, n, 1);
  w.dilation = per_dimension(call, "dilation", dilation, n, 1);
  const size_t count = static_cast<size_t>(n);
  if (padding.size() == 2 * count) {
    const auto middle = padding.begin() + n;
    w.before.assign(padding.begin(), middle);
    w.after.assign(middle, padding.end());
  } else if (padding.size() <= 1 || padding.size() == count) {
    w.before = w.after = per_dimension(call, "padding", padding, n, 0);
  } else {
    fail(call,
         "'padding' " + text(padding) + " has " + std::to_string(padding.size()) + " values for " +
             std::to_string(n) + " spatial dimensions",
         "give one value for all, one a dimension, or all begins and then all ends");
  }
  for (size_t d = 0; d < count; ++d) {
    if (w.stride[d] < 1) fail(call, "'stride' " + text(w.stride) + " has a value below 1");
    if (w.dilation[d] < 1) fail(call, "'dilation' " + text(w.dilation) + " has a value below 1");
    if (w.before[d] < 0 || w.after[d] < 0)
      fail(call, "'padding' " + text(padding) + " has a negative value",
           "cut with ops::slice instead");
  }
  return w;
}

Dims window_counts(const Call& call, const Dims& in, const Dims& kernel, const Window& w,
                   bool ceil_mode) {
  Dims out;
  for (size_t d = 0; d < in.size(); ++d) {
    const int64_t padded = in[d] + w.before[d] + w.after[d];
    const int64_t reach = w.dilation[d] * (kernel[d] - 1) + 1, rest = padded - reach;
    if (rest < 0)
      fail(call, "spatial dimension " + std::to_string(d) + " has extent " + std::to_string(in[d]) +
                     " (" + std::to_string(padded) +
                     " with padding), but the window reaches over " + std::to_string(reach));
    int64_t count = rest / w.stride[d] + 1;
    // As in PyTorch there is one more window if it starts inside the input or in the padding before
    // it.
    if (ceil_mode && rest % w.stride[d] != 0 && count * w.stride[d] < in[d] + w.before[d]) ++count;
    out.push_back(count);
  }
  return out;
}

std::vector<Axis> reduce_axes(const Call& call, const Dims& extents, const char* prefix) {
  std::vector<Axis> axes;
  for (size_t d = 0; d < extents.size(); ++d)
    axes.push_back(reduce_axis(extents[d], prefix + std::to_string(d), call.where));
  return axes;
}

}  // namespace heddle::ops::impl
