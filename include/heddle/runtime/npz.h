// Files of NumPy's format .npz: several arrays by name, as np.savez writes them.
//
//   std::map<std::string, NDArray> data = load_npz("calibration.npz");
//   NDArray images = data.at("images");
#pragma once

#include <map>
#include <string>

#include "heddle/runtime/ndarray.h"

namespace heddle {

/// Reads all arrays of a file of np.savez. A file that is damaged, one that np.savez_compressed
/// wrote, and an array of another type than those of NDArray::load are User errors that name the
/// file. A file of 4 GiB or more is refused.
std::map<std::string, NDArray> load_npz(const std::string& path);

/// Writes such a file, which np.load reads. It is written whole or not at all. Throws a User error
/// for arrays that together have 4 GiB or more, and for no arrays.
void save_npz(const std::string& path, const std::map<std::string, NDArray>& arrays);

}  // namespace heddle
