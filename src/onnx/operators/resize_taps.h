// Which elements a resized dimension is made of.
#pragma once

#include "heddle/ops/resize.h"
#include "onnx/node_scope.h"

namespace heddle::onnx {

enum class ResizePlace : uint8_t {
  HalfPixel,
  HalfPixelSymmetric,
  PyTorchHalfPixel,
  Asymmetric,
  AlignCorners,
  Crop,
};
/// The attributes of Resize.
struct ResizeHow {
  ops::ResizeMode mode = ops::ResizeMode::Nearest;
  ResizePlace place = ResizePlace::HalfPixel;
  ops::NearestRounding rounding = ops::NearestRounding::PreferFloor;
  double cubic_coefficient = -0.75;
  bool exclude_outside = false, antialias = false;
};

/// A dimension of `from` elements that is to have `to`.
struct ResizeAxis {
  int64_t from = 1, to = 1;
  double scale = 1;           ///< need not be to / from
  double begin = 0, end = 1;  ///< of the region that a crop shows, as parts of the dimension
};

/// The elements of each element of the result, as ops::resample takes them; Nearest has one each.
struct Taps {
  NDArray indices;  ///< i64 (to, taps)
  NDArray weights;  ///< f32 (to, taps)
  NDArray outside;  ///< bool (to): those that a crop shows beyond the dimension
  bool any_outside = false;
};
Taps taps_of(const NodeScope& s, const ResizeHow& how, const ResizeAxis& axis);

}  // namespace heddle::onnx
