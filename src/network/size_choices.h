// The sizes at which the kernels of a node over dimensions are chosen.
#pragma once

#include <vector>

#include "driver/family_near.h"
#include "driver/size_points.h"

namespace heddle::network {

/// The points of a node, and the static choice at each.
struct SizeChoices {
  family::SizePoints points;
  std::vector<family::NearChoice> choices;
};

/// The choices for the node that computes `outputs`, in a network over `sizes`, without a race. On
/// a CPU a point whose kernel would read weights that are packed for the others gives way to the
/// next larger one. For a GPU the static choice is asked at sizes close to each other, and
/// neighbours of one choice are one point; where more than six are left, those that stand for the
/// fewest sizes give way to the next larger ones.
SizeChoices size_choices(const std::vector<Tensor>& outputs, const std::vector<Var>& sizes,
                         const Target& target, const AutoSchedulerOptions& options);

}  // namespace heddle::network
