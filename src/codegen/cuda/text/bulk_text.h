// The names of the helper functions for copies by TMA.
#pragma once

#include <string>

namespace heddle::cuda {

/// The forms of a load, and a store.
enum class BulkForm {
  Alone,    ///< bulk_load_3d: a box, to the memory of the block
  Pair,     ///< bulk_load_3d_pair: to both blocks of a pair, at the same place. Each counts the
            ///< bytes at its own barrier.
  Windows,  ///< window_load_4d: windows of an image (im2col). Offsets within the window follow the
            ///< coordinates.
  Store,    ///< bulk_store_3d: a box of shared memory, to a tensor
};

/// The name of the function for tensors of `rank` dimensions, 2 to 5 (3 to 5 for windows).
std::string bulk_name(BulkForm form, size_t rank);

}  // namespace heddle::cuda
