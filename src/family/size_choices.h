// The static choices at the sizes of a range, where nothing is raced.
#pragma once

#include <vector>

#include "family/near.h"
#include "family/size_points.h"

namespace heddle::family {

/// Points of a range, and the static choice at each.
struct SizeChoices {
  SizePoints points;
  std::vector<NearChoice> choices;

  /// Gives the sizes of a point to the next larger one. Returns false, and changes nothing, where
  /// there is none.
  bool drop(size_t point);
};

/// The choices for the declaration of `outputs`, which depends on some of `sizes`, those of the
/// program. For a GPU and one dimension the static choice is asked at sizes close to each other,
/// and neighbours of one choice are one point; where more than six are left, those that stand for
/// the fewest sizes give way to the next larger ones. A point whose choice does not hold for all
/// sizes has that of the next larger point, or of the one before. Throws a User error where no
/// point has a choice.
SizeChoices size_choices(const std::vector<Tensor>& outputs, const std::vector<Var>& sizes,
                         const Target& target, const AutoSchedulerOptions& options,
                         const PointSpacing& close);

}  // namespace heddle::family
