// Comparison of arrays with a tolerance for each element.
#pragma once

#include "heddle/runtime/ndarray.h"

namespace heddle {

/// Elements agree when |a-b| <= allowed (f32, of the same shape), and always where it is infinite.
Difference compare_each(const NDArray& a, const NDArray& b, const NDArray& allowed);

}  // namespace heddle
