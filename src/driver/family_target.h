#pragma once

#include "heddle/target/target.h"

namespace heddle {

/// The target that schedules for all sizes are chosen for. The products of warp groups and their
/// TMA loads are for constant shapes, so of an sm_90a GPU it is sm_90.
Target family_target(Target target);

}  // namespace heddle
