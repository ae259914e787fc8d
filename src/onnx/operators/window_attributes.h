// The attributes shared by convolutions and pooling.
#pragma once

#include <cstdint>
#include <vector>

#include "onnx/node_scope.h"

namespace heddle::onnx {

struct WindowAttributes {
  std::vector<int64_t> kernel, stride, dilation;  ///< one a spatial dimension
  std::vector<int64_t> padding;                   ///< all begins, then all ends
};

/// Reads strides, dilations, pads and auto_pad of a node whose input has the spatial extents
/// `image`. Invalid numbers are User errors.
WindowAttributes window_attributes(const NodeScope& s, const std::vector<int64_t>& kernel,
                                   const std::vector<int64_t>& image);

/// The extents from dimension 2 on; an input without batch and channels is a User error.
std::vector<int64_t> spatial_extents(const NodeScope& s, int input);

}  // namespace heddle::onnx
