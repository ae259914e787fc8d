// Kernels of one node over dimensions that read its weights in one layout.
#pragma once

#include "heddle/schedule/schedule.h"

namespace heddle::network {

/// Whether `one`, a schedule of a task for a CPU, uses each weight once, as a product of one row
/// does, and reads them in another layout than `more`, the schedule at a larger size. Both layouts
/// would be in memory, and in exported files. Where the weights do not fit L2, the time of one row
/// is that of reading them in either layout, so `more` can run in place of `one`: but not where it reads many more
/// bytes, as it does where `one` unpacks bits in registers and `more` reads what was unpacked once.
bool streams_weights_once(const Schedule& one, const Schedule& more);

}  // namespace heddle::network
