// The arithmetic of a stage in operations that take the same time.
#pragma once

#include "heddle/dag/compute_dag.h"

namespace heddle {

/// Operations of one innermost evaluation, as StageInfo::flops_per_point; but one that is slow
/// (exp, a division, ..) counts as the sums that take as long.
double operations_per_point(const StageInfo& info);

/// The same for the whole stage.
double operations_of(const StageInfo& info);

}  // namespace heddle
