// Pooling over 1, 2 or 3 spatial dimensions. The rank of x determines their number.
//
//   Tensor y = ops::max_pool(x, {.kernel = {3}, .stride = {2}, .padding = {1}});
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/dsl/tensor.h"
#include "heddle/ops/layout.h"

namespace heddle::ops {

/// Attributes of pooling. A list has one value for all spatial dimensions or one for each
/// dimension.
struct Pool {
  std::vector<int64_t> kernel = {};
  std::vector<int64_t> stride = {};    ///< default: the kernel, as in PyTorch (ONNX: 1)
  std::vector<int64_t> padding = {};   ///< 0; or 2n values: all begins, then all ends, as ONNX
  std::vector<int64_t> dilation = {};  ///< 1
  bool ceil_mode = false;              ///< round the number of windows up
  bool count_include_pad = false;      ///< avg_pool: padding counts as elements of value 0
  Layout layout = Layout::ChannelsFirst;
};

/// The maximum of each window: x (N, C, spatial...) -> (N, C, windows...). Padding is never the
/// maximum.
Tensor max_pool(const Tensor& x, const Pool& attributes, Where where = Where::current());
/// The position of the maximum of each window of max_pool, counted through the spatial dimensions of x in
/// row-major order; the first of equal ones. i64; x has its channels first. Undefined where there are NaNs.
Tensor max_pool_positions(const Tensor& x, const Pool& attributes, Where where = Where::current());
/// Grey dilation: the maximum of x plus weight over each window. x (N, C, H, W), weight (C, h, w), or (N, H, W, C)
/// and (h, w, C). `attributes.kernel` is that of the weight and may be left out; strides are 1 unless given.
/// Padding is never the maximum.
Tensor dilation2d(const Tensor& x, const Tensor& weight, const Pool& attributes = {},
                  Where where = Where::current());
/// The mean of each window. Floats only. 16-bit floats are accumulated in f32.
Tensor avg_pool(const Tensor& x, const Pool& attributes, Where where = Where::current());

/// The maximum of each channel: -> (N, C, 1, ...).
Tensor global_max_pool(const Tensor& x, Layout layout = Layout::ChannelsFirst,
                       Where where = Where::current());
/// The mean of each channel: -> (N, C, 1, ...). Floats only.
Tensor global_avg_pool(const Tensor& x, Layout layout = Layout::ChannelsFirst,
                       Where where = Where::current());

/// Pools to the spatial extents `size`. Window i covers [floor(i * in / out), ceil((i + 1) * in /
/// out)).
Tensor adaptive_max_pool(const Tensor& x, const std::vector<int64_t>& size,
                         Layout layout = Layout::ChannelsFirst, Where where = Where::current());
Tensor adaptive_avg_pool(const Tensor& x, const std::vector<int64_t>& size,
                         Layout layout = Layout::ChannelsFirst, Where where = Where::current());

}  // namespace heddle::ops
