// The sizes at which the kernels of a family are raced.
#pragma once

#include <vector>

#include "heddle/driver/choose_family.h"

namespace heddle::family {

/// Those of family_points, and sizes between them. What is between counts: a tail costs other
/// kernels more than those that were chosen there.
std::vector<FamilyPoint> race_points(const std::vector<Dim>& dims, const FamilyOptions& options);

}  // namespace heddle::family
