// Declares a network again with its images in other layouts.
#pragma once

#include <vector>

#include "network/passes/images.h"

namespace heddle::network {

/// The layout of each stage, and the number of channels in a block.
struct ImageLayouts {
  std::vector<ImageLayout> of;
  int64_t block = 1;
  /// Whether the weights of convolutions with their channels innermost get the same layout. CPUs
  /// pack weights in any case; kernels for GPUs copy tiles as they lie.
  bool lay_weights = false;

  ImageLayout at(int s) const { return of[static_cast<size_t>(s)]; }
};

/// The axes of stage `s` where it and what it reads have these layouts. An axis of channels that
/// lie in blocks is two axes: that of the blocks in its place, and that in a block as the last one.
/// So is a reduce axis that runs over such channels of a single result.
struct StageAxes {
  StageAxes(const ComputeDag& dag, int s, const ImageLayouts& layouts);

  std::vector<Axis> axes, reduce_axes;
  std::vector<VarBinding> bindings;  ///< block * outer + inner for each axis that is two axes
  Ranges ranges;                     ///< of the old and the new axes

  /// An index in terms of the new axes.
  Expr index(const Expr& of_old_axes) const;
};

/// The indices of an element of an image in its layout, given those of [n, c, y, x].
std::vector<Expr> indices_in(ImageLayout layout, int64_t block, const std::vector<Expr>& declared,
                             const Ranges& ranges);

struct LaidImages {
  std::vector<Tensor> outputs;
  int failed = -1;  ///< a stage whose reads cannot be proved to be in bounds in these layouts
};

/// The outputs of the graph with each stage in its layout. Weights that a stage reads along its
/// channels get the same layout, once: weights of a depthwise convolution have their channels
/// innermost, those of another one the channels that are summed up (ImageLayouts::lay_weights), and
/// those of a stage with blocks have blocks of inputs and of results.
LaidImages lay_images(const ComputeDag& dag, const ImageLayouts& layouts);

}  // namespace heddle::network
