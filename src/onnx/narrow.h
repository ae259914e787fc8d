// Conversions to the narrower type of OnnxOptions::precision. Numbers of the model beyond its
// range, such as the -3.4e38 of masks, become its largest number: as infinities they would make
// their differences and their products with 0 NaN. Infinities and NaN stay.
#pragma once

#include "heddle/dsl/tensor.h"
#include "heddle/runtime/ndarray.h"

namespace heddle::onnx {

/// `value`, or the nearest finite number of the floating-point type `type`.
double narrowed(double value, DataType type);

/// An array of f32 in the type `type`, which is f16 or bf16.
NDArray narrowed(const NDArray& array, DataType type);

/// A tensor of f32 in the type `type`, which is f16 or bf16.
Tensor narrowed(const Tensor& tensor, DataType type);

}  // namespace heddle::onnx
