// Schedules of one declaration for a race.
#pragma once

#include <vector>

#include "heddle/driver/build_multi.h"

namespace heddle::cli {

/// At most `most` named schedules of different kinds. The choice of create_schedule is the first
/// one, "chosen". Then the static choice where that is a record ("static"), other records
/// ("record1"), the static choice of each alternative (by its name) and of the direct form
/// ("direct"), and narrower vectors and shorter unrolled bodies ("narrow", "compact").
std::vector<MultiVariant> variants_of(const std::vector<Tensor>& outputs, const Target& target,
                                      int most, const AutoSchedulerOptions& options = {});

}  // namespace heddle::cli
