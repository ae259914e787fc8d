// tune for a shape family: schedules are tuned at some sizes, raced at all of them, and the best
// few are kept behind one callable (family/choose.h).
#pragma once

#include <vector>

#include "heddle/family/choose.h"
#include "heddle/search/tune.h"

namespace heddle {

/// Tunes the declaration at family_points(dims, family), all of them together, within the budget of
/// `tuning` less the time of the race. Rounds go where a size gains the largest share of its time.
/// The static choices at these points race too. The target is the one of `tuning`. Tuned schedules
/// are of no alternative; the static choices may be.
/// Throws what choose_family throws.
FamilyResult tune_family(const std::vector<Dim>& dims, const std::vector<Tensor>& args,
                         const FamilyOptions& family = {}, const TuneOptions& tuning = {});

}  // namespace heddle
