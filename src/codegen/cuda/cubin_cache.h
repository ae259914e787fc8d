// Compiled machine code on disk, found by a hash of all its inputs.
//
// The folder is HEDDLE_CUBIN_CACHE ("off": none), else heddle/cubin in $XDG_CACHE_HOME or ~/.cache.
// It keeps at most HEDDLE_CUBIN_CACHE_MB (512) MiB and removes the least recently used files. Any
// number of threads and processes may share it. A damaged file is ignored.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/cuda/nvrtc.h"

namespace heddle::cuda {

/// 128 bits in hexadecimal: of source, architecture, options, NVRTC's version and ours.
std::string cubin_key(const std::string& source, const std::string& arch,
                      const std::vector<std::string>& options, int nvrtc_version);

/// Empty: there is no cache.
std::string cubin_cache_folder();
std::optional<Cubin> load_cubin(const std::string& key);
/// A full disk or a folder that cannot be written is not an error; it only costs speed.
void store_cubin(const std::string& key, const Cubin& cubin);

}  // namespace heddle::cuda
