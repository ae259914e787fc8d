// Resizing images, volumes and signals.
//
//   Tensor y = ops::resize(x, {112, 112});                              // bilinear, half pixel
//   Tensor z = ops::resize(x, {112, 112}, {.mode = ops::ResizeMode::Nearest});
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/dsl/tensor.h"
#include "heddle/ops/layout.h"

namespace heddle::ops {

/// How a value between input positions is computed: from the nearest element, or in each dimension
/// from two neighbours (linear) or four (cubic convolution; Keys 1981).
enum class ResizeMode : uint8_t { Nearest, Linear, Cubic };
/// The position p in an input of `in` elements that output position o of `out` elements shows.
enum class ResizeCoordinates : uint8_t {
  HalfPixel,     ///< (o + 0.5) * in / out - 0.5: ONNX's default, PyTorch's align_corners=false
  Asymmetric,    ///< o * in / out
  AlignCorners,  ///< o * (in - 1) / (out - 1)
};
/// How Nearest rounds p. ONNX's default is PreferFloor. PyTorch's "nearest" is Asymmetric with
/// Floor.
enum class NearestRounding : uint8_t { PreferFloor, PreferCeil, Floor, Ceil };

/// Attributes of resize().
struct Resize {
  ResizeMode mode = ResizeMode::Linear;
  ResizeCoordinates coordinates = ResizeCoordinates::HalfPixel;
  NearestRounding rounding = NearestRounding::PreferFloor;
  Layout layout = Layout::ChannelsFirst;
  double cubic_coefficient = -0.75;  ///< Keys' a; PyTorch and ONNX use -0.75, TensorFlow -0.5
};

/// Resizes x, (N, C, spatial...) or (N, spatial..., C) with 1 to 3 spatial dimensions, to the
/// spatial extents `size`. Positions are computed with integers, so Nearest never picks a wrong
/// neighbour because of rounding.
Tensor resize(const Tensor& x, const std::vector<int64_t>& size, Resize attributes = {},
              Where where = Where::current());

/// Along `axis` each element of the result is a sum of elements of x at places that are the same for all
/// rows: sum over t of weights[o, t] * x[indices[o, t]]. `indices` and `weights` are (extent, taps);
/// weights of 0 read nothing. Filters of any length are that, such as those of antialiasing.
Tensor resample(const Tensor& x, int axis, const Tensor& indices, const Tensor& weights,
                Where where = Where::current());

}  // namespace heddle::ops
