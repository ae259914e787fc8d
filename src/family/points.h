// The sizes at which the kernels of a family race.
#pragma once

#include <vector>

#include "heddle/family/choose.h"

namespace heddle::family {

/// The points of family_points, and sizes between them. The sizes between are needed because a tail
/// costs kernels more at sizes for which they were not chosen.
std::vector<FamilyPoint> race_points(const std::vector<Dim>& dims, const FamilyOptions& options);

/// The point with odd multiples of the promised factors in place of even ones.
FamilyPoint odd_point(const std::vector<Dim>& dims, FamilyPoint p);

}  // namespace heddle::family
