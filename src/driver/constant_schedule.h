#pragma once
// The static choice for declarations of constant extents.

#include <vector>

#include "heddle/schedule/options.h"
#include "heddle/schedule/schedule.h"

namespace heddle {

/// What create_schedule answers where no extent is a dimension: the best record that applies, or
/// the choice of the rules.
Schedule constant_schedule(const std::vector<Tensor>& outputs, const Target& target,
                           const AutoSchedulerOptions& options);

}  // namespace heddle
