#pragma once

#include "heddle/target/target.h"

namespace heddle {

/// The target for which schedules for all sizes are chosen. Products of warp groups and their TMA
/// loads need constant shapes, so sm_90 replaces sm_90a.
Target family_target(Target target);

}  // namespace heddle
