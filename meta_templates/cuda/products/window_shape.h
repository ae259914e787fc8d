// Convolutions whose tiles TMA loads: rows are windows of an image whose channels are innermost
// (TMA's im2col form), and filters are boxes.
#pragma once

#include "cuda/products/tensor_core_shape.h"

namespace heddle::meta {

/// Whether stage `s`, read by the anchor of `g`, can be in memory. (Stages that only move elements
/// may be inlined by another group that reads them too.)
bool can_be_in_memory(const ComputeDag& dag, const StageGroup& g, int s);

/// The stage that `s` pads with zeros, where `s` does only that; otherwise -1.
int padded_source(const ComputeDag& dag, int s);

/// Whether TMA can load the operands of a viewed product (shape.view()). The image is in memory, or
/// is the padding of one that is; its last dimension is the innermost part of the depth, in whole
/// rows of boxes. Strides, windows and padding are within the limits of tensor maps.
bool takes_windows(const ComputeDag& dag, const StageGroup& g, const TensorCoreShape& shape);

}  // namespace heddle::meta
