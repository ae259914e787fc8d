// Binding the caller's arrays to buffers.
#pragma once

#include <string>
#include <vector>

#include "codegen/interpreter/compile.h"
#include "heddle/runtime/ndarray.h"

namespace heddle::interp {

/// Makes `array` the contents of `buffer`; throws a user error that calls the buffer `role` 'name'
/// where type or shape differ. A dimension that is an unbound variable takes the array's extent.
void bind_argument(Compiler& exprs, const Buffer& buffer, const NDArray& array, const char* role);

/// The extents of `shape`, evaluated.
std::vector<std::int64_t> evaluate_shape(Compiler& exprs, const std::vector<Expr>& shape);

}  // namespace heddle::interp
