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

/// How many points one dimension has: as many as make the ratio of neighbours at most `ratio`, up
/// to `most`. From 32 on the ratio is `finer`, unless that is 0.
struct PointSpacing {
  double ratio, most, finer = 0;
  bool inner = false;  ///< two dimensions have points between their ends
};
/// Four points with a ratio of 8 for a CPU, where each kernel packs the weights for itself. Six
/// with a ratio of 4 for a GPU: too few blocks leave multiprocessors idle, and nothing is packed.
PointSpacing usual_spacing(const Target& target);

/// The points of the declaration of `outputs`, which depends on some of `sizes`, those of the
/// program. One dimension has points of this spacing, two have the ends of their ranges, and more have one each. With
/// `inner` points each of two has three where something is summed along one of them, as in an attention: a few rows
/// are another problem than one or many. Those of a dimension along which it is summed are two and the largest.
SizePoints size_points(const std::vector<Tensor>& outputs, const std::vector<Var>& sizes,
                       const PointSpacing& spacing);

/// Leaves a point out, at whose sizes the one for the next larger sizes runs from then on. Returns
/// false, and changes nothing, where it is the last one of its dimension.
bool drop_point(SizePoints& points, size_t point);

}  // namespace heddle::family
