// What a race of a family's kernels gives: the kernels that are kept, and when each runs.
#pragma once

#include <vector>

#include "family/select.h"
#include "heddle/family/choose.h"

namespace heddle::family {

struct Kept {
  FamilyResult result;          ///< without FamilyResult::kernel
  std::vector<int> candidates;  ///< the positions of its variants among those that raced
};

/// Keeps at most `most` of `candidates`. `raced` has their times at each of `points`, in order.
Kept keep_best(const std::vector<Dim>& dims, const std::vector<FamilyVariant>& candidates,
               const std::vector<FamilyPoint>& points, const std::vector<Raced>& raced, int most);

/// Keeps the candidates at the positions `which`; the leaves of `tree` name places in `which`.
Kept keep(const std::vector<Dim>& dims, const std::vector<FamilyVariant>& candidates,
          const std::vector<FamilyPoint>& points, const std::vector<Raced>& raced,
          std::vector<int> which, SizeTree tree);

}  // namespace heddle::family
