// Convolutions in one, two and three dimensions.
//
//   Tensor y = ops::conv2d(x, w, {.stride = {2}, .padding = {3}});  // (1,3,224,224) x (64,3,7,7)
//   Tensor z = ops::conv2d(x, w, {.padding = {1}, .layout = ops::NHWC}, bias);
//
// | layout        | x             | weight of conv             | weight of conv_transpose        |
// |---------------|---------------|----------------------------|---------------------------------|
// | ChannelsFirst | (N, C, H, W)  | (K, C / groups, R, S) OIHW | (C, K / groups, R, S) IOHW      |
// | ChannelsLast  | (N, H, W, C)  | (R, S, C / groups, K) HWIO | (R, S, K / groups, C) HWOI      |
//
// The first row is PyTorch and ONNX, the second TensorFlow. One and three dimensions are the same
// with as many spatial dimensions. All declare, in this order: a padding stage (only if there is
// padding), the reduction, and a stage for bias and output type (only if needed).
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/dsl/tensor.h"
#include "heddle/ops/layout.h"
#include "heddle/ops/precision.h"

namespace heddle::ops {

/// Attributes of a convolution. A list is empty (the default), has one value for all dimensions, or
/// one for each dimension.
struct Conv {
  std::vector<int64_t> stride = {};    ///< 1
  std::vector<int64_t> padding = {};   ///< 0; or 2n values: all begins, then all ends, as ONNX
  std::vector<int64_t> dilation = {};  ///< 1
  int64_t groups = 1;
  Layout layout = Layout::ChannelsFirst;
  Precision precision = {};
};

/// A convolution: x and weight as in the table above -> (N, K, (W + padding - dilation * (R - 1) -
/// 1) / stride + 1). `bias` is (K). Types: see Precision.
Tensor conv1d(const Tensor& x, const Tensor& weight, const Conv& attributes = {},
              const Tensor& bias = {}, Where where = Where::current());
Tensor conv2d(const Tensor& x, const Tensor& weight, const Conv& attributes = {},
              const Tensor& bias = {}, Where where = Where::current());
Tensor conv3d(const Tensor& x, const Tensor& weight, const Conv& attributes = {},
              const Tensor& bias = {}, Where where = Where::current());

/// Convolves each channel by itself: weight is (C * m, 1, R, S), or (R, S, 1, C * m) for
/// ChannelsLast, where output channel c * m + i comes from channel c. `attributes.groups` is
/// ignored.
Tensor depthwise_conv2d(const Tensor& x, const Tensor& weight, const Conv& attributes = {},
                        const Tensor& bias = {}, Where where = Where::current());

/// Attributes of transposed convolutions. Lists have one value for each spatial dimension, or one
/// for all; empty lists mean the default.
struct ConvTranspose {
  std::vector<int64_t> stride = {};
  std::vector<int64_t> padding = {};  ///< removed from the result
  std::vector<int64_t> dilation = {};
  std::vector<int64_t> output_padding = {};  ///< added at the end of the result; 0
  int64_t groups = 1;
  Layout layout = Layout::ChannelsFirst;
  Precision precision = {};
};

/// The transpose (gradient) of a convolution:
/// -> (N, K, (W - 1) * stride - padding + dilation * (R - 1) + output_padding + 1).
/// With a stride the result is calculated phase by phase (sub-pixel), so that no product with an
/// inserted zero is ever taken; the phases are interleaved by a stage of their own.
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const ConvTranspose& attributes = {},
                        const Tensor& bias = {}, Where where = Where::current());
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const ConvTranspose& attributes = {},
                        const Tensor& bias = {}, Where where = Where::current());
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const ConvTranspose& attributes = {},
                        const Tensor& bias = {}, Where where = Where::current());

/// Cuts images into columns (im2col): x (N, C, size...) -> (N, C * window, windows), where a window of
/// `kernel` elements and the windows themselves are in row-major order. What lies outside of an image is 0.
/// Only the stride, padding and dilation of `attributes` count.
Tensor unfold(const Tensor& x, const std::vector<int64_t>& kernel, const Conv& attributes = {},
              Where where = Where::current());

/// Sums windows into images: x (N, C * window, windows), where a window of `kernel` elements and the windows
/// themselves are in row-major order, -> (N, C, size...). It is the transpose of `unfold`, and counts the same
/// attributes.
Tensor fold(const Tensor& x, const std::vector<int64_t>& size, const std::vector<int64_t>& kernel,
            const Conv& attributes = {}, Where where = Where::current());

}  // namespace heddle::ops
