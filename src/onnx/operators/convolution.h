// The declaration of a convolution, for operators on floats and on integers.
#pragma once

#include "heddle/ops/conv.h"
#include "onnx/node_scope.h"

namespace heddle::onnx {

/// The attributes of a convolution of input 0 whose weight is input `weight`.
ops::Conv conv_attributes(const NodeScope& s, int weight);

/// The convolution over one, two or three dimensions. `bias` may be undefined.
Tensor convolution(const NodeScope& s, const Tensor& x, const Tensor& weight,
                   const ops::Conv& attributes, const Tensor& bias);

}  // namespace heddle::onnx
