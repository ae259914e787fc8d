// Packed weights of networks on the disk, so that the next process need not pack them again.
#pragma once

#include "heddle/support/disk_cache.h"

namespace heddle {

/// The folder "weights" among the caches (support/disk_cache.h); at most HEDDLE_WEIGHTS_CACHE_MB
/// (4096 MiB). A file is found by the code that packs, which depends on the machine and on this
/// build of Heddle, and by the weights.
DiskCache disk_weights_cache();

}  // namespace heddle
