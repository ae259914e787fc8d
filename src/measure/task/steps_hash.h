// The hash that identifies candidates.
#pragma once

#include <cstdint>

#include "heddle/schedule/schedule.h"

namespace heddle::measuring {

/// Equal for schedules of the same steps.
uint64_t steps_hash(const Schedule& schedule);

}  // namespace heddle::measuring
