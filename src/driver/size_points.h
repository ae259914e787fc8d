// The sizes at which the kernels of a declaration are chosen where nothing is raced.
#pragma once

#include <vector>

#include "heddle/dag/instance.h"
#include "heddle/runtime/family_kernel.h"
#include "heddle/target/target.h"

namespace heddle::family {

/// Sizes at which schedules are chosen. Their logarithms are evenly spaced, from one end of each
/// range to the other. At the sizes of a call the next larger of them are used, because blocks that
/// are too long cost less than several that are too short.
struct SizePoints {
  std::vector<std::vector<SizeValue>> points;
  SizeTree tree;  ///< on the sizes of the program; its leaves name points
};

/// The points of the declaration of `outputs`, which depends on some of `sizes`, those of the
/// program. One dimension has up to four points, or six for a GPU, two have two each, and more have
/// one each.
SizePoints size_points(const std::vector<Tensor>& outputs, const std::vector<Var>& sizes,
                       const Target& target);

}  // namespace heddle::family
