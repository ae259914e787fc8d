// Values that kernels derived from constants (packed weights), on the disk for later processes
// (weights_cache.h).
//
// A file's name is a hash of the code that made it, which depends on the machine and on this build
// of Heddle, and of the constants: of an initialiser of a file its place in the file, and the
// file's size and times of change; of others, and of those that may have been changed in memory,
// the contents. Files appear by a rename and hold a keyed hash (disk_cache.h), so any number of
// processes may share the folder, and nobody else can put weights into it.
#pragma once

#include <span>
#include <string>

#include "heddle/runtime/ndarray.h"
#include "runtime/kernel/weights_cache.h"

namespace heddle {

/// Empty where the code has no key; the values are then not stored.
std::string prepared_key(const std::string& code_key, std::span<const NDArray> constants,
                         std::span<const NDArray> bound);

/// Fills `arrays` with the values of the key. Returns false where there are none or the file is
/// damaged; the contents of the arrays are then undefined.
bool load_prepared(const std::string& key, std::span<const NDArray> arrays);

/// A full disk or a folder that cannot be written is no error, because it costs speed only.
void store_prepared(const std::string& key, std::span<const NDArray> arrays);

}  // namespace heddle
