// Comparison of arrays with a tolerance of each element's own.
#pragma once

#include "heddle/runtime/ndarray.h"

namespace heddle {

/// Elements agree when |a-b| <= allowed (f32, of their shape), element by element; where it is
/// infinite, always.
Difference compare_each(const NDArray& a, const NDArray& b, const NDArray& allowed);

}  // namespace heddle
