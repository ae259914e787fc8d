// Declares a network again with its images in other layouts.
#pragma once

#include <vector>

#include "network/passes/images.h"

namespace heddle::network {

/// The layout of each stage.
struct ImageLayouts {
  std::vector<ImageLayout> of;
  /// Whether the weights of convolutions with their channels innermost get the same layout. CPUs
  /// pack weights in any case; kernels for GPUs copy tiles as they lie.
  bool lay_weights = false;

  ImageLayout at(int s) const { return of[static_cast<size_t>(s)]; }
};

/// The outputs of the graph with each stage in its layout. Weights that a stage reads along its
/// channels get the same layout, once: weights of a depthwise convolution have their channels
/// innermost, those of groups (on CPUs) the filters, and those of another one the channels that are
/// summed up (ImageLayouts::lay_weights).
std::vector<Tensor> lay_images(const ComputeDag& dag, const ImageLayouts& layouts);

}  // namespace heddle::network
