// Sliding windows, shared by convolution and pooling.
#pragma once

#include "heddle/ops/layout.h"
#include "ops/common.h"

namespace heddle::ops::impl {

/// The positions of batch, channels and the n spatial dimensions.
struct Dimensions {
  Dimensions(Layout layout, int n) : n(n), channel(layout == NCHW ? 1 : n + 1) {}
  int n;        ///< spatial dimensions
  int channel;  ///< position of the channels; the batch is dimension 0
  int spatial(int d) const { return d + (channel == 1 ? 2 : 1); }
  Dims spatial_dims(const Tensor& x) const;
  /// A list in the order of the layout.
  template <class T>
  std::vector<T> arrange(const T& batch, const T& channels, const std::vector<T>& spatials) const {
    std::vector<T> result{batch};
    if (channel == 1) result.push_back(channels);
    result.insert(result.end(), spatials.begin(), spatials.end());
    if (channel != 1) result.push_back(channels);
    return result;
  }
};

/// The parameters of a sliding window, one for each spatial dimension.
struct Window {
  Dims stride, dilation, before, after;
};

/// Fills in defaults and checks: strides and dilations at least 1, padding not negative.
Window window_of(const Call& call, int n, const Dims& stride, const Dims& padding,
                 const Dims& dilation);

/// The extents of the result of windows of `kernel` over `in`. An error where none fits.
Dims window_counts(const Call& call, const Dims& in, const Dims& kernel, const Window& window,
                   bool ceil_mode = false);

std::vector<Axis> reduce_axes(const Call& call, const Dims& extents, const char* prefix);

}  // namespace heddle::ops::impl
