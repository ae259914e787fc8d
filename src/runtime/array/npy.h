// The contents of a file of NumPy's format .npy.
#pragma once

#include <string>
#include <string_view>

#include "heddle/runtime/ndarray.h"

namespace heddle::internal {

/// The array of these bytes, as NDArray::load reads it. Messages name `path`.
NDArray read_npy(std::string_view file, const std::string& path);

/// The bytes of such a file.
std::string write_npy(const NDArray& array);

}  // namespace heddle::internal
