// heddle run for a subject with a range of sizes.
#pragma once

#include "commands.h"

namespace heddle::cli {

/// Runs its kernels on random arrays at some sizes.
int run_family(const Request& request);

}  // namespace heddle::cli
