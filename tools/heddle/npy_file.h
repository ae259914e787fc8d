// Arrays as files of NumPy's format .npy.
#pragma once

#include <string>

#include "heddle/runtime/ndarray.h"

namespace heddle::cli {

/// A row-major, little-endian file of a type of ours; anything else is a User error that names it.
NDArray load_npy(const std::string& path);
/// Writes such a file, as a whole or not at all. bf16, which NumPy lacks, is a User error.
void save_npy(const NDArray& array, const std::string& path);

}  // namespace heddle::cli
