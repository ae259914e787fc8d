// Compiled machine code on disk, found by a hash of all its inputs.
//
// The folder is HEDDLE_CUBIN_CACHE ("off": none), else "cubin" among the caches (disk_cache.h). It
// keeps at most HEDDLE_CUBIN_CACHE_MB (512) MiB.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "heddle/support/disk_cache.h"

namespace heddle::cuda {

/// The key: 128 bits in hexadecimal, a hash of the source, the architecture, the options, and the
/// versions of NVRTC and of Heddle's code generator.
std::string cubin_key(const std::string& source, const std::string& arch,
                      const std::vector<std::string>& options, int nvrtc_version);

/// The folder of the cache, or an empty string where there is no cache.
std::string cubin_cache_folder();
std::optional<Cubin> load_cubin(const std::string& key);
void store_cubin(const std::string& key, const Cubin& cubin);

}  // namespace heddle::cuda
